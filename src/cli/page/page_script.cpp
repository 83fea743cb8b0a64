#include "cli/page/page_parts.h"

namespace deltasane::cli {

const char* const page_script = R"js('use strict';
const svgName = 'http://www.w3.org/2000/svg';
function svgNode(parent, kind, attributes, text) {
  const node = document.createElementNS(svgName, kind);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  parent.append(node);
  return node;
}
function htmlNode(parent, kind, properties) {
  const node = Object.assign(document.createElement(kind), properties);
  parent.append(node);
  return node;
}
function short(value) {
  const size = Math.abs(value);
  if (size >= 1e6 || (size > 0 && size < 1e-3)) return value.toExponential(2).replace('e+', 'e');
  if (size >= 1000) return Math.round(value).toLocaleString('en');
  return String(Number(value.toPrecision(4)));
}
function linearTicks(low, high, count) {
  const raw = (high - low) / count, power = 10 ** Math.floor(Math.log10(raw));
  const step = power * [1, 2, 5, 10].find(s => s * power >= raw);
  const ticks = [];
  for (let at = Math.ceil(low / step) * step; at <= high + step * 1e-6; at += step)
    ticks.push(Math.abs(at) < step * 1e-6 ? 0 : at);
  return ticks;
}
function logTicks(low, high) {
  const first = Math.ceil(Math.log10(low) - 1e-9), last = Math.floor(Math.log10(high) + 1e-9);
  for (const digits of last - first < 2 ? [[1, 2, 5], [1, 2, 3, 4, 5, 6, 7, 8, 9]] : []) {
    const found = [first - 1, first, last].flatMap((power, i, all) => power === all[i - 1] ? [] :
      digits.map(digit => Number(`${digit}e${power}`))).filter(tick => tick >= low && tick <= high);
    if (found.length > 2) return found;
  }
  if (last - first < 2) return linearTicks(low, high, 4).filter(tick => tick > 0);
  const step = Math.ceil((last - first) / 5), ticks = [];
  for (let power = first; power <= last; power += step) ticks.push(10 ** power);
  return ticks;
}
function begin(chart, figure) {
  const box = figure.querySelector('.plot');
  const sizes = chart.curves.flatMap(curve => curve.y).filter(y => y > 0);
  const span = sizes.reduce((a, b) => Math.max(a, b), 0) / sizes.reduce((a, b) => Math.min(a, b), Infinity);
  const state = {log: chart.log && span > 10, range: null, on: chart.curves.map((_, i) => i < chart.shown)};
  const usable = (curve, i) => curve.y[i] !== null && (!state.log || curve.y[i] > 0);
  const colour = i => `var(--c${i % 7})`, dashes = i => (i < 7 ? '' : i < 14 ? '6 3' : '2 3');
  const keys = document.createElement('div');
  keys.className = 'keys';
  box.before(keys);
  const tip = htmlNode(box, 'div', {className: 'tip', hidden: true});
  let svg, place;

  function drawKeys() {
    keys.replaceChildren();
    chart.curves.forEach((curve, i) => {
      if (i >= chart.shown && !state.on[i]) return;
      const key = htmlNode(keys, 'button', {type: 'button', title: 'show or hide'});
      key.setAttribute('aria-pressed', state.on[i]);
      htmlNode(key, 'span', {className: 'swatch'}).style.background = colour(i);
      key.append(curve.name);
      key.onclick = () => { state.on[i] = !state.on[i]; drawKeys(); draw(); };
    });
    const tools = htmlNode(keys, 'span', {className: 'keys tools'});
    if (chart.shown < chart.curves.length) {
      const picker = htmlNode(tools, 'select', {ariaLabel: 'show another curve'});
      htmlNode(picker, 'option', {textContent: 'more ...', value: -1});
      chart.curves.forEach((curve, i) => {
        if (!state.on[i]) htmlNode(picker, 'option', {textContent: curve.name, value: i});
      });
      picker.onchange = () => { state.on[Number(picker.value)] = true; drawKeys(); draw(); };
    }
    const label = htmlNode(tools, 'label', {});
    const box = htmlNode(label, 'input', {type: 'checkbox', checked: state.log});
    label.append(' log');
    box.onchange = () => { state.log = box.checked; draw(); };
    if (state.range)
      htmlNode(tools, 'button', {type: 'button', textContent: 'whole range'}).onclick = () => {
        state.range = null; drawKeys(); draw();
      };
  }

  function draw(printed) {
    const width = printed || Math.max(box.clientWidth, 200);
    const height = Math.round(Math.min(360, Math.max(200, width * 0.5)));
    const left = 72, right = 12, top = 10, bottom = 40;
    const shown = chart.curves.map((curve, i) => [curve, i]).filter(([, i]) => state.on[i]);
    let [low, high] = state.range || [Infinity, -Infinity];
    if (!state.range)
      for (const curve of chart.curves) for (const x of curve.x) low = Math.min(low, x), high = Math.max(high, x);
    let bottomValue = Infinity, topValue = -Infinity;
    for (const [curve] of shown) curve.x.forEach((x, i) => {
      if (x < low || x > high || !usable(curve, i)) return;
      bottomValue = Math.min(bottomValue, curve.y[i]);
      topValue = Math.max(topValue, curve.y[i]);
    });
    if (!(topValue >= bottomValue)) bottomValue = state.log ? 1 : 0, topValue = state.log ? 10 : 1;
    if (chart.high > 0) topValue = Math.max(topValue, chart.high);
    if (!(high > low)) low -= 0.5, high += 0.5;
    if (state.log) {
      if (topValue / bottomValue < 1.1) bottomValue /= 1.5, topValue *= 1.5;
    } else {
      if (bottomValue > 0 && bottomValue < topValue / 2) bottomValue = 0;
      const pad = (topValue - bottomValue) * 0.05 || Math.abs(topValue) * 0.05 || 1;
      topValue += pad;
      if (bottomValue !== 0) bottomValue -= pad;
    }
    const toX = x => left + (x - low) / (high - low) * (width - left - right);
    const scale = state.log ? Math.log10 : v => v;
    const toY = y => top + (scale(topValue) - scale(y)) / (scale(topValue) - scale(bottomValue)) *
      (height - top - bottom);
    const old = svg;
    svg = document.createElementNS(svgName, 'svg');
    svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
    svg.setAttribute('height', height);
    svg.setAttribute('role', 'img');
    svg.setAttribute('tabindex', 0);
    svg.setAttribute('aria-label', `${chart.title}: ${chart.y} over ${chart.x}. ` + shown.map(
      ([curve]) => { const at = curve.y.findLastIndex((_, i) => usable(curve, i));
        return at < 0 ? `${curve.name}: nothing` : `${curve.name}: ${short(curve.y[at])} at the end`; }).join('; '));
    svgNode(svg, 'title', {}, chart.title);
    for (const tick of state.log ? logTicks(bottomValue, topValue) : linearTicks(bottomValue, topValue, 5)) {
      svgNode(svg, 'path', {class: 'grid', d: `M${left} ${toY(tick)}H${width - right}`});
      svgNode(svg, 'text', {x: left - 6, y: toY(tick) + 4, 'text-anchor': 'end'}, short(tick));
    }
    for (const tick of linearTicks(low, high, width < 500 ? 3 : 6)) {
      svgNode(svg, 'path', {class: 'grid', d: `M${toX(tick)} ${top}V${height - bottom}`});
      svgNode(svg, 'text', {x: Math.min(toX(tick), width - 24), y: height - bottom + 16,
        'text-anchor': 'middle'}, short(tick));
    }
    svgNode(svg, 'text', {x: (left + width - right) / 2, y: height - 6, 'text-anchor': 'middle'}, chart.x);
    svgNode(svg, 'text', {transform: `translate(12 ${(top + height - bottom) / 2}) rotate(-90)`,
      'text-anchor': 'middle'}, chart.y);
    for (const mark of chart.marks) if (mark >= low && mark <= high) {
      svgNode(svg, 'path', {class: 'mark', d: `M${toX(mark)} ${top}V${height - bottom}`});
      svgNode(svg, 'text', {x: toX(mark) - 4, y: top + 12, 'text-anchor': 'end'}, chart.mark);
    }
    const clip = svgNode(svgNode(svg, 'defs', {}), 'clipPath', {id: `within-${figure.id}`});
    svgNode(clip, 'rect', {x: left, y: top - 2, width: width - left - right, height: height - top - bottom + 4});
    for (const [curve, number] of shown) {
      let path = '', pen = false;
      curve.x.forEach((x, i) => {
        const fits = x >= low && x <= high && usable(curve, i);
        // A line goes on to the edge of the range: to one point beyond it.
        const near = usable(curve, i) && !(curve.x[i + 1] < low || curve.x[i - 1] > high);
        if (near) path += `${pen ? 'L' : 'M'}${toX(x).toFixed(1)} ${toY(curve.y[i]).toFixed(1)}`;
        if (fits && (chart.points || curve.x.length < 2))
          svgNode(svg, 'circle', {cx: toX(x), cy: toY(curve.y[i]), r: 3, style: `fill:${colour(number)}`});
        pen = near;
      });
      svgNode(svg, 'path', {class: 'curve', d: path || 'M0 0', 'clip-path': `url(#within-${figure.id})`, 'stroke-dasharray': dashes(number),
        style: `stroke:${colour(number)}`});
    }
    const cursor = svgNode(svg, 'path', {class: 'cursor', d: ''});
    const range = svgNode(svg, 'rect', {class: 'range', y: top, height: height - top - bottom, width: 0});
    place = {width, left, right, low, high, toX, cursor, range, shown, top, below: height - bottom};
    listen();
    if (old) old.replaceWith(svg); else box.prepend(svg);
    tip.hidden = true;
  }

  const valueAt = at => place.low + (at - place.left) / (place.width - place.left - place.right) *
    (place.high - place.low);
  function pointed(event) {
    const area = svg.getBoundingClientRect();
    const at = (event.clientX - area.left) * place.width / area.width;
    return Math.min(Math.max(at, place.left), place.width - place.right);
  }
  function show(x) {
    const near = curve => curve.x.reduce((best, value, i) =>
      Math.abs(value - x) < Math.abs(curve.x[best] - x) ? i : best, 0);
    const found = place.shown.map(([curve, i]) => [curve, i, near(curve)]).filter(f => f[0].x.length);
    if (!found.length) return;
    const here = found.map(([curve, , i]) => curve.x[i]).reduce((a, b) => Math.abs(b - x) < Math.abs(a - x) ? b : a);
    place.here = here;
    const at = place.toX(here);
    place.cursor.setAttribute('d', `M${at} ${place.top}V${place.below}`);
    tip.replaceChildren();
    htmlNode(tip, 'b', {textContent: `${short(here)} ${chart.x}`});
    for (const [curve, number, i] of found) {
      const row = htmlNode(tip, 'div', {});
      htmlNode(row, 'span', {className: 'swatch'}).style.background = colour(number);
      row.append(`${curve.name}: ${curve.y[i] === null ? 'not finite' : short(curve.y[i])}`);
    }
    tip.hidden = false;
    const share = at / place.width;
    tip.style.left = share < 0.5 ? `${100 * share + 2}%` : '';
    tip.style.right = share < 0.5 ? '' : `${100 * (1 - share) + 2}%`;
    tip.style.top = `${place.top + 4}px`;
  }
  function listen() {
    let from = null;
    svg.onpointerdown = event => { from = pointed(event); };
    svg.onpointermove = event => {
      const at = pointed(event);
      show(valueAt(at));
      if (from === null || !event.buttons) return;
      place.range.setAttribute('x', Math.min(from, at));
      place.range.setAttribute('width', Math.abs(at - from));
    };
    svg.onpointerup = event => {
      const at = pointed(event), begun = from;
      from = null;
      if (begun === null || Math.abs(at - begun) < 8) return;
      state.range = [valueAt(Math.min(at, begun)), valueAt(Math.max(at, begun))];
      drawKeys();
      draw();
    };
    svg.onpointerleave = () => { tip.hidden = true; place.cursor.setAttribute('d', ''); };
    svg.ondblclick = () => { state.range = null; drawKeys(); draw(); };
    svg.onkeydown = event => {
      const steps = {ArrowLeft: -1, ArrowRight: 1}[event.key];
      if (!steps) return;
      event.preventDefault();
      const all = [...new Set(place.shown.flatMap(([curve]) => curve.x))].sort((a, b) => a - b);
      const now = Math.max(all.indexOf(place.here), 0);
      show(all[Math.min(Math.max(now + steps, 0), all.length - 1)]);
    };
  }

  const values = htmlNode(htmlNode(figure, 'div', {className: 'unseen'}), 'table', {});
  htmlNode(values, 'caption', {textContent: `${chart.title}: values`});
  for (const [curve, i] of chart.curves.map((curve, i) => [curve, i]).slice(0, 20)) {
    const row = htmlNode(values, 'tr', {});
    htmlNode(row, 'th', {textContent: curve.name});
    for (const at of [0, curve.x.length - 1])
      htmlNode(row, 'td', {textContent: `${curve.y[at]} at ${curve.x[at]}`});
  }
  drawKeys();
  draw();
  new ResizeObserver(() => { if (place.width !== box.clientWidth) draw(); }).observe(box);
  addEventListener('beforeprint', () => draw(680));
  addEventListener('afterprint', () => draw());
}
const charts = JSON.parse(document.getElementById('data').textContent);
charts.forEach((chart, i) => begin(chart, document.getElementById(`chart${i}`)));
)js";

}  // namespace deltasane::cli
