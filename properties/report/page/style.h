#pragma once
// The style sheet of gate_page. The four states of a statement differ in lightness and texture as well as in hue, so
// that they are told apart without colour vision and on paper.

#include <string_view>

namespace mxcheck {

inline constexpr std::string_view kGateStyle = R"(
:root { color-scheme: light dark; --page: #fcfcfb; --card: #ffffff; --ink: #17171a; --soft: #5d5f66; --rule: #dcdce0;
  --held: #2e8b57; --failed: #c2261c; --open: #d08a00; --none: #d4d5da; --good: #1a7f37; --bad: #b3261e; --doubt: #8a5a00;
  --h0: #f4f4f3; --h1: #e3edf8; --h2: #c3d9f1; --h3: #94bce6; --h4: #5b97d6; --h5: #2a6fb8; --on: #ffffff; --bit: #4a4c53; }
@media (prefers-color-scheme: dark) { :root { --page: #17181b; --card: #1e2024; --ink: #ececef; --soft: #a5a7ae;
  --rule: #36383e; --held: #3fae74; --failed: #ff6f61; --open: #f2b84b; --none: #45474e; --good: #5fd07d; --bad: #ff8a80;
  --doubt: #f2b84b; --h0: #222429; --h1: #1d2b3b; --h2: #21405f; --h3: #285b8c; --h4: #3b82c4; --h5: #7db8f0;
  --on: #0e0f11; --bit: #c3c5cc; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 24px 20px 60px; max-width: 1120px; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, "Liberation Sans", sans-serif; }
h1 { font-size: 24px; margin: 0 0 12px; overflow-wrap: anywhere; }
h2 { font-size: 18px; margin: 36px 0 8px; } h3 { font-size: 15px; margin: 22px 0 6px; overflow-wrap: anywhere; }
p { margin: 6px 0; max-width: 90ch; } .soft { color: var(--soft); } .note { font-size: 13px; color: var(--soft); }
code, pre, .mono { font-family: ui-monospace, "Liberation Mono", "DejaVu Sans Mono", monospace; font-size: 13px; }
pre { background: var(--card); border: 1px solid var(--rule); border-radius: 6px; padding: 10px 14px; overflow-x: auto;
  line-height: 1.45; margin: 8px 0; } pre.command { user-select: all; white-space: pre-wrap; overflow-wrap: anywhere; }
.verdict { border-left: 6px solid var(--open); background: var(--card); padding: 10px 16px; margin: 0 0 16px; font-size: 18px;
  overflow-wrap: anywhere; } .verdict strong { margin-right: 10px; }
.verdict.good { border-color: var(--held); } .verdict.bad { border-color: var(--failed); }
.good { color: var(--good); } .bad { color: var(--bad); } .doubt { color: var(--doubt); }
dl { columns: 2 26em; column-gap: 32px; margin: 12px 0; } dl div { display: flex; gap: 12px; break-inside: avoid; padding: 1px 0; }
dt { color: var(--soft); flex: 0 0 6.5em; } dd { margin: 0; overflow-wrap: anywhere; min-width: 0; }
.wide { overflow-x: auto; } svg { max-width: 100%; height: auto; display: block; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 13.5px; }
th, td { padding: 4px 10px 4px 0; text-align: left; vertical-align: top; border-bottom: 1px solid var(--rule); }
th { color: var(--soft); font-weight: 600; } td.n, th.n { text-align: right; white-space: nowrap; }
td.name { overflow-wrap: anywhere; min-width: 26em; max-width: 30em; }
.badge { font-size: 12px; font-weight: 600; white-space: nowrap; } .badge::before { content: ""; display: inline-block;
  width: 10px; height: 10px; margin-right: 6px; border-radius: 2px; background: var(--none); }
.badge.held::before { background: var(--held); } .badge.failed::before { background: var(--failed); border-radius: 50%; }
.badge.open::before { background: var(--open); clip-path: polygon(50% 0, 100% 100%, 0 100%); }
.badge.none::before { background: none; border: 1.5px solid var(--soft); }
.strip { display: flex; gap: 10px; align-items: center; font-size: 12px; line-height: 1.35; color: var(--soft); }
.strip svg { flex: 0 0 132px; width: 132px; height: 14px; } .held { fill: var(--held); } .failed { fill: var(--failed); }
.open { fill: url(#hatch); } .none { fill: var(--none); } .undrawn { fill: var(--h1); } .hatch { stroke: var(--open); }
.key { display: flex; flex-wrap: wrap; gap: 4px 18px; margin: 8px 0; }
.share { width: 100%; height: 18px; margin: 10px 0 4px; }
.axis { display: grid; grid-template-columns: 13em 1fr; gap: 2px 10px; padding: 3px 0; border-bottom: 1px solid var(--rule); }
.axis > span { color: var(--soft); font-size: 13px; } .cells { display: flex; flex-wrap: wrap; gap: 2px; }
.cells i { font: 11.5px/1.25 system-ui, "Liberation Sans", sans-serif; padding: 2px 6px; border-radius: 3px; border: 1.5px solid transparent;
  background: var(--h0); max-width: 22em; overflow-wrap: anywhere; } .cells b { font-weight: 600; margin-left: 5px; }
.cells .h1 { background: var(--h1); } .cells .h2 { background: var(--h2); } .cells .h3 { background: var(--h3); }
.cells .h4 { background: var(--h4); color: var(--on); } .cells .h5 { background: var(--h5); color: var(--on); }
.cells .few { border: 1.5px dashed var(--open); } .cells .unmet { border: 1.5px solid var(--failed); color: var(--bad); }
.cells .left { color: var(--soft); } .cells .refused { color: var(--soft); text-decoration: line-through; }
details { margin: 8px 0; } summary { cursor: pointer; color: var(--soft); }
.failure { border-top: 3px solid var(--failed); padding-top: 4px; margin-top: 26px; }
.pair { display: flex; flex-wrap: wrap; gap: 14px 40px; align-items: flex-start; } .pair > div { min-width: 0; max-width: 100%; }
svg text { font: 11px ui-monospace, "Liberation Mono", "DejaVu Sans Mono", monospace; fill: var(--soft); } svg text.ink { fill: var(--ink); }
svg text.bad { fill: var(--bad); font-weight: 700; } .cell { fill: var(--h1); } .right { fill: var(--h2); } .frame { fill: none; stroke: var(--soft); }
.blocks { stroke: var(--rule); stroke-width: 1; } .wrong { fill: var(--failed); }
.b0 { fill: var(--card); stroke: var(--bit); stroke-width: 0.8; } .b1 { fill: var(--bit); stroke: var(--bit); stroke-width: 0.8; }
.x0 { fill: var(--card); stroke: var(--failed); stroke-width: 1.6; } .x1 { fill: var(--failed); stroke: var(--failed); stroke-width: 1.6; }
.bar { fill: var(--h4); } .track { fill: var(--h0); }
.times td.name { max-width: 34em; } .times svg { width: 240px; height: 12px; }
@media print { pre { white-space: pre-wrap; } details { display: block; } }
)";

}  // namespace mxcheck
