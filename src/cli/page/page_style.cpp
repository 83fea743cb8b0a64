#include "cli/page/page_parts.h"

namespace deltasane::cli {

const char* const page_style = R"(
:root { color-scheme: light dark; --ink: #1c1c1c; --soft: #5a5a5a; --line: #d8d8d8; --paper: #fff;
  --c0: #0072b2; --c1: #d55e00; --c2: #009e73; --c3: #b0578d; --c4: #9a6b00; --c5: #2f9fd0; --c6: #444; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8e8e8; --soft: #a8a8a8; --line: #3c3c3c;
  --paper: #161616; --c0: #56b4e9; --c1: #f08a4b; --c2: #35c79b; --c3: #d992bd; --c4: #e0b040;
  --c5: #8fd3ff; --c6: #c8c8c8; } }
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 1100px; margin: 0 auto; padding: 1em;
  color: var(--ink); background: var(--paper); overflow-wrap: break-word; }
h1 { font-size: 1.6em; line-height: 1.2; }
h2 { font-size: 1.1em; margin: 0 0 .3em; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; margin: 1em 0; font-variant-numeric: tabular-nums; }
td, th { padding: .25em .7em; text-align: right; border-bottom: 1px solid var(--line);
  vertical-align: top; }
td.text, th.text { text-align: left; min-width: 7em; }
figure { margin: 2em 0; break-inside: avoid; }
figcaption { color: var(--soft); font-size: .9em; }
.plot { position: relative; }
.plot svg { display: block; width: 100%; touch-action: pan-y; }
.plot svg:focus-visible { outline: 2px solid var(--c0); }
.plot text { fill: var(--soft); font: 12px system-ui, sans-serif; }
.plot .axis, .plot .grid { stroke: var(--line); fill: none; }
.plot .curve { fill: none; stroke-width: 2; stroke-linejoin: round; }
.plot .mark { stroke: var(--c1); stroke-dasharray: 4 3; }
.plot .cursor { stroke: var(--soft); }
.plot .range { fill: var(--c0); opacity: .15; }
.tip { position: absolute; pointer-events: none; background: var(--paper); color: var(--ink);
  border: 1px solid var(--line); border-radius: 4px; padding: .3em .5em; font-size: 12px;
  max-width: 70%; z-index: 1; }
.tip b { font-weight: 600; }
.keys { display: flex; flex-wrap: wrap; gap: .3em .5em; align-items: center; font-size: .85em;
  margin: .3em 0; }
.keys button, .keys select, .keys label { font: inherit; color: inherit; background: none;
  border: 1px solid var(--line); border-radius: 4px; padding: .15em .5em; max-width: 100%; }
.keys select { background: var(--paper); }
.keys button { cursor: pointer; }
.keys button[aria-pressed=false] { opacity: .45; }
.swatch { display: inline-block; width: 1em; height: .25em; vertical-align: middle;
  margin-right: .4em; }
.drawing { background: #fff; overflow-x: auto; }
.drawing svg { min-width: 700px; max-width: 100%; height: auto; }
.drawing image { image-rendering: pixelated; }
.unseen { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
@media screen and (max-width: 480px) { body { font-size: 15px; padding: .6em; } }
@media screen and (max-width: 900px) { table, tbody, tr { display: block; }
  thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  tr { border-bottom: 2px solid var(--line); padding: .4em 0; }
  td { display: flex; justify-content: space-between; gap: 1em; border: 0; padding: .1em 0; }
  td.text { text-align: right; }
  td::before { content: attr(data-title); color: var(--soft); text-align: left; } }
@media print { :root { --ink: #000; --soft: #333; --line: #bbb; --paper: #fff; --c0: #0072b2;
  --c1: #d55e00; --c2: #009e73; --c3: #b0578d; --c4: #9a6b00; --c5: #2f9fd0; --c6: #444; }
  .tip, .tools { display: none !important; } body { max-width: none; font-size: 11pt; }
  .wide { overflow: visible; } .drawing svg { min-width: 0; } table { font-size: 8pt; } td, th { padding: .2em .4em; } }
)";

}  // namespace deltasane::cli
