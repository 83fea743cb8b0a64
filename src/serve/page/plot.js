// Small drawings: line plots and bars as SVG, numbers for people, 16-bit floats, colours.
const byId = (id) => document.getElementById(id);
const colourOf = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const seriesColour = (index) => colourOf(['--first', '--second', '--third', '--fourth'][index % 4]);

function element(name, attributes, parent, text) {
  const made = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  if (parent) parent.append(made);
  return made;
}

function short(value) {
  if (value === null || value === undefined || !isFinite(value)) return '–';
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e7 || size < 1e-3)) return value.toExponential(1).replace('e+', 'e');
  if (size >= 1e6) return (value / 1e6).toPrecision(3) + 'M';
  if (size >= 1e4) return Math.round(value / 1e3) + 'k';
  return size >= 100 ? String(Math.round(value)) : String(Number(value.toPrecision(3)));
}

// Values of base64 of little-endian IEEE binary16.
function halves(text) {
  const bytes = Uint8Array.from(atob(text), (one) => one.charCodeAt(0));
  const values = new Float32Array(bytes.length / 2);
  for (let i = 0; i < values.length; i++) {
    const bits = bytes[2 * i] | bytes[2 * i + 1] << 8;
    const exponent = bits >> 10 & 31, fraction = bits & 1023, sign = bits & 32768 ? -1 : 1;
    values[i] = sign * (exponent === 31 ? (fraction ? NaN : Infinity)
      : exponent ? (1 + fraction / 1024) * 2 ** (exponent - 15) : fraction * 2 ** -24);
  }
  return values;
}

// Viridis: even in lightness, so that it reads in grey and with any kind of sight.
const viridis = [[68, 1, 84], [72, 40, 120], [62, 74, 137], [49, 104, 142], [38, 130, 142], [31, 158, 137], [53, 183, 121], [110, 206, 88],
  [181, 222, 43], [253, 231, 37]];
function heat(part) {
  const place = Math.min(Math.max(part, 0), 1) * (viridis.length - 1), low = Math.min(Math.floor(place), viridis.length - 2);
  return viridis[low].map((one, i) => Math.round(one + (viridis[low + 1][i] - one) * (place - low)));
}

function ticksOf(low, high, log, count) {
  if (log) {
    const from = Math.ceil(low - 1e-9), to = Math.floor(high + 1e-9), step = Math.max(1, Math.ceil((to - from) / count));
    return Array.from({length: Math.max(0, Math.floor((to - from) / step) + 1)}, (_, i) => from + i * step);
  }
  const rough = (high - low) / count || 1, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough);
  const ticks = [];
  for (let tick = Math.ceil(low / step) * step; tick <= high + step * 1e-6; tick += step) ticks.push(tick);
  return ticks;
}

// series: [{x, y, colour, dashed}]; y may hold null. options: log, low, high, format, xHigh.
function drawLines(svg, series, options = {}) {
  const width = svg.clientWidth || 400, height = svg.clientHeight || 150;
  const left = 46, right = 8, top = 6, bottom = 18;
  svg.replaceChildren();
  svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
  const scaled = (y) => options.log ? Math.log10(Math.max(y, 1e-4)) : y;
  const points = series.map((one) => one.x.map((x, i) => [x, one.y[i]]).filter((p) => p[1] !== null && isFinite(p[1]) && (!options.log || p[1] > 0))
    .map(([x, y]) => [x, scaled(y)]));
  const all = points.flat();
  if (!all.length) return;
  const xs = all.map((p) => p[0]), ys = all.map((p) => p[1]);
  const xLow = Math.min(...xs), xHigh = Math.max(options.xHigh ?? -Infinity, Math.max(...xs), xLow + 1);
  let low = options.low ?? Math.min(...ys), high = options.high ?? Math.max(...ys);
  if (high - low < 1e-6) high = low + 1;
  if (options.high === undefined) high += (high - low) * 0.05;
  const px = (x) => left + (x - xLow) / (xHigh - xLow) * (width - left - right);
  const py = (y) => height - bottom - (y - low) / (high - low) * (height - top - bottom);
  const format = options.format ?? short;
  for (const tick of ticksOf(low, high, options.log, 4)) {
    element('line', {x1: left, x2: width - right, y1: py(tick), y2: py(tick), stroke: colourOf('--grid')}, svg);
    element('text', {x: left - 5, y: py(tick) + 4, 'text-anchor': 'end'}, svg, format(options.log ? 10 ** tick : tick));
  }
  for (const tick of ticksOf(xLow, xHigh, false, Math.max(2, Math.floor(width / 130))))
    element('text', {x: px(tick), y: height - 4, 'text-anchor': tick - xLow < (xHigh - xLow) / 20 ? 'start' : 'middle'}, svg, short(tick));
  points.forEach((line, i) => element('polyline', {points: line.map(([x, y]) => px(x).toFixed(1) + ',' + py(y).toFixed(1)).join(' '),
    fill: 'none', stroke: series[i].colour, 'stroke-width': 1.8, 'stroke-linejoin': 'round',
    'stroke-dasharray': series[i].dashed ? '4 3' : 'none'}, svg));
}

function drawBars(svg, counts, colour) {
  const width = svg.clientWidth || 400, height = svg.clientHeight || 150, left = 46, bottom = 18, top = 6;
  svg.replaceChildren();
  svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
  // Counts span many magnitudes.
  const logs = counts.map((one) => one > 0 ? Math.log10(one) + 0.15 : 0), high = Math.max(...logs, 1);
  const step = (width - left - 8) / counts.length;
  for (const tick of ticksOf(0, high, true, 3)) {
    const y = height - bottom - (tick + 0.15) / (high + 0.15) * (height - top - bottom);
    element('line', {x1: left, x2: width - 8, y1: y, y2: y, stroke: colourOf('--grid')}, svg);
    element('text', {x: left - 5, y: y + 4, 'text-anchor': 'end'}, svg, short(10 ** tick));
  }
  logs.forEach((one, i) => {
    const size = one / (high + 0.15) * (height - top - bottom);
    element('rect', {x: left + i * step + 1, y: height - bottom - size, width: Math.max(step - 2, 1), height: size, fill: colour}, svg);
  });
  for (const [part, anchor] of [[0, 'start'], [0.5, 'middle'], [1, 'end']])
    element('text', {x: left + part * (width - left - 8), y: height - 4, 'text-anchor': anchor}, svg, part);
}

function fillTable(table, heads, rows) {
  const cells = (kind, values) => {
    const row = document.createElement('tr');
    for (const value of values) {
      const cell = document.createElement(kind);
      cell.append(value);
      row.append(cell);
    }
    return row;
  };
  if (heads) table.tHead.replaceChildren(cells('th', heads));
  table.tBodies[0].replaceChildren(...rows.map((row) => cells('td', row)));
}
