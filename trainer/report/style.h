#pragma once
// The style sheet of comparison_html. Series colours differ in lightness and hue, so that they are told apart without
// colour vision; each has a lighter form for dark pages.

#include <string_view>

namespace mxcheck {

inline constexpr std::string_view kReportStyle = R"(
:root { color-scheme: light dark; --page: #fcfcfb; --ink: #17171a; --soft: #5d5f66; --rule: #dcdce0; --inside: #e3f0e6;
  --good: #1a7f37; --bad: #b3261e; --open: #8a5a00;
  --s0: #55575e; --s1: #2a78d6; --s2: #b3261e; --s3: #008577; --s4: #a8489c; --s5: #c77700; --s6: #4a3aa7; --s7: #6b7a00; }
@media (prefers-color-scheme: dark) { :root { --page: #17181b; --ink: #ececef; --soft: #a5a7ae; --rule: #36383e;
  --inside: #1d3325; --good: #5fd07d; --bad: #ff8a80; --open: #f2b84b;
  --s0: #b9bbc2; --s1: #6aa9f4; --s2: #ff8a80; --s3: #4fc9bb; --s4: #e38fd8; --s5: #f2a33a; --s6: #a99cf5; --s7: #bccb4e; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 24px 20px 60px; max-width: 1020px; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 25px; margin: 0 0 4px; } h2 { font-size: 18px; margin: 38px 0 8px; }
h3 { font-size: 15px; margin: 18px 0 4px; } p { margin: 6px 0; max-width: 80ch; } .soft { color: var(--soft); }
.wide { overflow-x: auto; } svg { max-width: 100%; height: auto; }
.outcome { border-left: 5px solid var(--open); padding: 8px 14px; margin: 16px 0; font-size: 17px; }
.outcome.good { border-color: var(--good); } .outcome.bad { border-color: var(--bad); }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 14px; }
th, td { text-align: right; white-space: nowrap; padding: 4px 10px; border-bottom: 1px solid var(--rule); vertical-align: top; }
th { color: var(--soft); font-weight: 600; } .l { text-align: left; }
ul { padding-left: 22px; margin: 8px 0; } li { max-width: 86ch; }
.good { color: var(--good); } .bad { color: var(--bad); } .open { color: var(--open); }
.charts { display: flex; flex-wrap: wrap; gap: 8px 24px; }
.key { display: flex; flex-wrap: wrap; gap: 4px 18px; margin: 6px 0; } .key i { display: inline-block; width: 22px;
  height: 0; border-top: 3px solid; margin-right: 6px; vertical-align: middle; }
blockquote { margin: 8px 0; padding: 10px 16px; border: 1px solid var(--rule); border-radius: 6px; max-width: 86ch; }
svg text { font: 12px system-ui, sans-serif; fill: var(--soft); } svg text.head, svg text.name { fill: var(--ink);
  font-weight: 600; font-size: 13px; } svg text.note { font-size: 11px; }
svg text.good { fill: var(--good); } svg text.bad { fill: var(--bad); } svg text.open { fill: var(--open); }
.grid { stroke: var(--rule); } .axis { stroke: var(--soft); } .level { stroke: var(--soft); stroke-dasharray: 5 4; }
.level.outer { stroke-dasharray: 1 4; } .inside { fill: var(--inside); }
.line { fill: none; stroke-width: 1.6; stroke: currentColor; stroke-linejoin: round; } .dot, .pair, .mean { fill: currentColor; }
.pair { opacity: 0.5; } .whisker { stroke: currentColor; stroke-width: 2; } .band { fill: currentColor; opacity: 0.18; }
.s0 { color: var(--s0); } .s1 { color: var(--s1); } .s2 { color: var(--s2); } .s3 { color: var(--s3); }
.s4 { color: var(--s4); } .s5 { color: var(--s5); } .s6 { color: var(--s6); } .s7 { color: var(--s7); }
.saturated { color: var(--s2); } .flushed { color: var(--s1); stroke-dasharray: 6 3; }
)";

}  // namespace mxcheck
