#pragma once
// The style sheet of comparison_html, but for the series' colours (colours.h). Text has 11 px or more, in charts 13, of
// which a page that is 320 px wide leaves 11.

#include <string_view>

namespace mxcheck {

inline constexpr std::string_view kReportStyle = R"(
:root { color-scheme: light dark; --page: #fcfcfb; --ink: #17171a; --soft: #5d5f66; --rule: #dcdce0; --inside: #e3f0e6;
  --good: #1a7f37; --bad: #b3261e; --open: #8a5a00; --saturated: #b36b00; --flushed: #2a78d6; }
@media (prefers-color-scheme: dark) { :root { --page: #17181b; --ink: #ececef; --soft: #a5a7ae; --rule: #36383e;
  --inside: #1d3325; --good: #5fd07d; --bad: #ff8a80; --open: #f2b84b; --saturated: #f2a33a; --flushed: #6aa9f4; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 24px 20px 60px; max-width: 1100px; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; overflow-wrap: break-word; }
@media (max-width: 480px) { body { padding: 12px 10px 40px; } }
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
.charts { display: flex; flex-wrap: wrap; gap: 8px 12px; } .charts > * { min-width: 0; }
figure { margin: 0; max-width: 340px; }
figure.tall svg { display: block; } figcaption { font-size: 13px; color: var(--soft); }
.key { display: flex; flex-wrap: wrap; gap: 4px 18px; margin: 6px 0; } .key i { display: inline-block; width: 22px;
  height: 0; border-top: 3px solid; margin-right: 6px; vertical-align: middle; }
svg.swatch { width: 28px; height: 8px; margin-right: 6px; vertical-align: middle; } .swatch .line { stroke-width: 3; }
.forest { max-width: 720px; } .forest p { margin: 8px 0 0; font-size: 13px; line-height: 1.35; max-width: none; }
.forest svg { display: block; width: 100%; height: 32px; } .forest svg.ticks { height: 24px; }
.forest svg.mark { width: 1px; height: 1px; overflow: visible; }
blockquote { margin: 8px 0; padding: 10px 16px; border: 1px solid var(--rule); border-radius: 6px; max-width: 86ch; }
svg text { font: 13px system-ui, sans-serif; fill: var(--soft); } svg text.head { fill: var(--ink); font-weight: 600; }
svg text.note { fill: var(--ink); }
.grid { stroke: var(--rule); } .axis { stroke: var(--soft); } .level { stroke: var(--soft); stroke-dasharray: 5 4; }
.level.outer { stroke-dasharray: 1 4; } .inside { fill: var(--inside); }
.line { fill: none; stroke-width: 1.6; stroke: currentColor; stroke-linejoin: round; } .dot, .pair, .mean { fill: currentColor; }
.pair { opacity: 0.5; } .whisker { stroke: currentColor; stroke-width: 2; } .thin { stroke: currentColor; }
.band { fill: currentColor; opacity: 0.18; }
.saturated { color: var(--saturated); } .flushed { color: var(--flushed); stroke-dasharray: 6 3; }
)";

}  // namespace mxcheck
