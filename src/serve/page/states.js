// The states of sessions, live: frames of /v1/events, drawn as they come.
const access = {key: ''};
const view = {watch: [], head: null, last: '', frame: null, stop: null};

const withKey = (headers = {}) => access.key ? {...headers, Authorization: 'Bearer ' + access.key} : headers;
const pause = (time) => new Promise((done) => setTimeout(done, time));

const foreseen = 1e12;  // tokens; nobody reads more
const overflowText = (one) => one.overflow_in && one.overflow_in < foreseen ? short(one.overflow_in) + ' tokens' : 'not foreseen';
const facts = (one) => [
  ['position', short(one.position)], ['norm of S', short(one.norm)], ['max |S|', short(one.largest)],
  ['loss', one.loss === null ? '–' : one.loss.toFixed(3)], ['growing heads', one.growing],
  ['overflow in', one.phase === 'overflow' ? 'now' : overflowText(one)],
];
const isAlarming = (one) => one.phase === 'overflow' || one.overflow_in !== null && one.overflow_in < 1e7;

function placeOf(one, number) {
  let layer = 0;
  for (; layer < one.heads_of_layers.length && number >= one.heads_of_layers[layer]; layer++) number -= one.heads_of_layers[layer];
  return [layer, number];
}
function numberOf(one, layer, head) {
  return one.heads_of_layers.slice(0, layer).reduce((sum, count) => sum + count, 0) + head;
}

const lawText = (curve) => curve.law === 'bounded' ? 'bounded'
  : `grows ${curve.law === 'linear' ? 'linearly' : 'exponentially'}` +
    (curve.doubling ? `, doubles in ${short(curve.doubling)} tokens` : '') +
    (curve.overflow_in < foreseen && curve.overflow_in ? `, overflows in ${short(curve.overflow_in)} tokens` : '');

const valueText = (quantity, value) => quantity.startsWith('log_') ? value <= -4 ? quantity === 'log_growth' ? '0' : '≤ 1e-4' : short(10 ** value) : short(value);

function drawMap(canvas, one, quantity, values, low, high, shown) {
  const layers = one.heads_of_layers, columns = Math.max(...layers, 1);
  const scale = Math.max(1, Math.floor(640 / columns)), tall = Math.max(1, Math.floor(240 / layers.length));
  canvas.width = columns * scale;
  canvas.height = layers.length * tall;
  const pen = canvas.getContext('2d');
  let number = 0;
  layers.forEach((count, layer) => {
    for (let head = 0; head < count; head++, number++) {
      const value = values ? values[number] : NaN;
      pen.fillStyle = isNaN(value) ? colourOf('--line') : `rgb(${heat((value - low) / (high - low || 1))})`;
      pen.fillRect(head * scale, layer * tall, scale - (scale > 3 ? 1 : 0), tall - (tall > 3 ? 1 : 0));
    }
  });
  const [layer, head] = placeOf(one, shown);
  pen.strokeStyle = colourOf('--text');
  pen.lineWidth = 3;
  pen.strokeRect(head * scale + 1, layer * tall + 1, scale - 3, tall - 3);
  canvas.setAttribute('aria-label', `heads by ${byId('quantity').selectedOptions[0].text}; chosen: layer ${layer}, head ${head}`);
}

function chooseHead(number) {
  view.head = number;
  connect();
}

function bindMap(canvas) {
  canvas.onclick = (event) => {
    const one = canvas.session, box = canvas.getBoundingClientRect();
    const layer = Math.min(Math.floor((event.clientY - box.top) / box.height * one.heads_of_layers.length), one.heads_of_layers.length - 1);
    const head = Math.floor((event.clientX - box.left) / box.width * Math.max(...one.heads_of_layers));
    if (head < one.heads_of_layers[layer]) chooseHead(numberOf(one, layer, head));
  };
  canvas.onkeydown = (event) => {
    const move = {ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0]}[event.key];
    if (!move) return;
    event.preventDefault();
    const one = canvas.session, [layer, head] = placeOf(one, one.shown.number);
    const toLayer = Math.min(Math.max(layer + move[0], 0), one.heads_of_layers.length - 1);
    const toHead = Math.min(Math.max(head + move[1], 0), one.heads_of_layers[toLayer] - 1);
    chooseHead(numberOf(one, toLayer, toHead));
  };
}

function cardOf(index) {
  const list = byId('watched');
  while (list.children.length <= index) {
    list.append(byId('card').content.cloneNode(true));
    bindMap(list.lastElementChild.querySelector('.map'));
  }
  return list.children[index];
}

function drawCard(card, one, index, all, quantity, low, high) {
  const find = (name) => card.querySelector(name), colour = seriesColour(index);
  find('.dot').style.background = colour;
  find('.name').textContent = one.id;
  find('.sane').textContent = `${one.sane}, ${one.phase}`;
  find('.facts').replaceChildren(...facts(one).map(([name, value], i) => {
    const box = document.createElement('div'), title = document.createElement('dt'), text = document.createElement('dd');
    title.textContent = name;
    text.textContent = value;
    if (i === 5 && isAlarming(one)) text.className = 'alarm';
    box.append(title, text);
    return box;
  }));
  drawLines(find('.losses'), [{x: one.losses.map((_, i) => i - one.losses.length), y: one.losses, colour}], {low: 0});
  if (!one.log_norm) return;
  const map = find('.map');
  map.session = one;
  const values = one[quantity] ? halves(one[quantity]) : null;
  drawMap(map, one, quantity, values, low, high, one.shown.number);
  find('.chosen').textContent = `layer ${one.shown.layer}, head ${one.shown.head}: ` +
    (values ? `${byId('quantity').selectedOptions[0].text} ${valueText(quantity, values[one.shown.number])}; ` : 'no such number without SANE; ') +
    `norm ${lawText(one.shown)}`;
  find('.norm-caption').textContent = `norm of S by position; dashed: layer ${one.shown.layer}, head ${one.shown.head}`;
  // One scale for sessions side by side.
  const norms = all.flatMap((other) => other.norms ?? []).filter((norm) => norm > 0).map(Math.log10);
  drawLines(find('.norms'), [{x: one.positions, y: one.norms, colour}, {x: one.positions, y: one.shown.norm, colour, dashed: true}],
    {log: true, low: Math.min(...norms, 0), high: Math.max(...norms, 1) * 1.05});
  find('.tau-figure').hidden = !one.histogram;
  if (one.histogram) drawBars(find('.histogram'), one.histogram, colour);
  if (find('details').open) drawNumbers(find('.numbers'), one);
}

function drawNumbers(table, one) {
  const names = ['log_norm', 'log_largest', 'log_growth', 'tau', 'near_identity', 'transition', 'saturated'].filter((name) => one[name]);
  const columns = names.map((name) => halves(one[name]));
  const order = [...columns[0].keys()].sort((a, b) => columns[0][b] - columns[0][a]).slice(0, 100);
  const titles = Object.fromEntries([...byId('quantity').options].map((option) => [option.value, option.text]));
  fillTable(table, ['layer.head', ...names.map((name) => titles[name])],
    order.map((number) => [placeOf(one, number).join('.'), ...names.map((name, i) => valueText(name, columns[i][number]))]));
}

function drawStory(story) {
  byId('story').hidden = !story;
  if (!story) return;
  byId('story-title').textContent = story.title;
  byId('story-text').textContent = story.text;
  byId('story-progress').value = story.position / story.tokens;
  drawLines(byId('story-plot'), story.models.map((model, i) => ({x: story.asked_at, y: model.right, colour: seriesColour(i)})),
    {low: 0, high: 1.02, xHigh: story.tokens, format: (part) => Math.round(part * 100) + ' %'});
  fillTable(byId('story-answers'), ['question', ...story.models.map((model) => model.name)],
    story.questions.map((question, i) => [question, ...story.models.map((model) => {
      const answer = model.answers[i], cell = document.createElement('span');
      cell.textContent = `${answer.text} ${answer.right ? '✓' : '✗'}`;
      if (!answer.right) cell.className = 'alarm';
      return cell;
    })]));
}

function drawSessions(sessions, watched) {
  fillTable(byId('sessions'), null, sessions.map((one) => {
    const button = document.createElement('button');
    button.textContent = one.id;
    button.setAttribute('aria-pressed', watched.some((other) => other.id === one.id));
    button.onclick = () => {
      view.watch = view.watch.includes(one.id) ? view.watch.filter((id) => id !== one.id) : [...view.watch, one.id].slice(-2);
      connect();
    };
    return [button, one.phase, short(one.position), one.loss === null ? '–' : one.loss.toFixed(3), short(one.norm), short(one.largest),
      one.growing, overflowText(one), one.sane];
  }));
}

function draw() {
  const frame = view.frame;
  if (!frame || byId('states').hidden) return;
  byId('read-rate').textContent = short(frame.read_per_second);
  byId('write-rate').textContent = short(frame.written_per_second);
  byId('running').textContent = frame.running;
  byId('waiting').textContent = frame.waiting;
  drawStory(frame.story);
  const quantity = byId('quantity').value, watched = frame.watched;
  const values = watched.flatMap((one) => one[quantity] ? [...halves(one[quantity])] : []).filter(isFinite);
  const low = Math.min(...values), high = Math.max(...values);
  byId('scale-low').textContent = values.length ? valueText(quantity, low) : '';
  byId('scale-high').textContent = values.length ? valueText(quantity, high) : '';
  byId('nothing').hidden = watched.length > 0;
  const list = byId('watched');
  while (list.children.length > watched.length) list.lastElementChild.remove();
  watched.forEach((one, i) => drawCard(cardOf(i), one, i, watched, quantity, low, high));
  const focused = document.activeElement?.closest?.('#sessions');
  if (!focused || !focused.matches(':focus-within')) drawSessions(frame.sessions, watched);
}

// Hands out id and data of each server-sent event.
async function* eventsOf(reply) {
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let text = ''; ;) {
    const {value, done} = await reader.read();
    if (done) return;
    text += value;
    for (let end; (end = text.indexOf('\n\n')) >= 0; text = text.slice(end + 2)) {
      const lines = text.slice(0, end).split('\n');
      const of = (name) => lines.filter((line) => line.startsWith(name)).map((line) => line.slice(name.length)).join('\n');
      if (of('data: ')) yield {id: of('id: '), data: of('data: ')};
    }
  }
}

async function readEvents(signal) {
  const query = new URLSearchParams(view.watch.map((id) => ['watch', id]));
  if (view.head !== null) query.set('head', view.head);
  const reply = await fetch('/v1/events?' + query, {headers: withKey(view.last ? {'Last-Event-ID': view.last} : {}), signal});
  byId('key-form').hidden = reply.status !== 401 && !access.key;
  if (!reply.ok) throw new Error(reply.status === 401 ? 'an API key is needed' : (await reply.json()).error.message);
  byId('link').textContent = 'live';
  for await (const {id, data} of eventsOf(reply)) {
    view.last = id;
    view.frame = JSON.parse(data);
    requestAnimationFrame(draw);
  }
}

async function connect() {
  if (view.stop) view.stop.abort();
  const stop = view.stop = new AbortController();
  view.last = '';
  while (!stop.signal.aborted) {
    try {
      await readEvents(stop.signal);
      byId('link').textContent = 'the server ended; trying again';
    } catch (error) {
      if (!stop.signal.aborted) byId('link').textContent = error instanceof TypeError ? 'no connection; trying again' : error.message;
    }
    if (!stop.signal.aborted) await pause(1000);
  }
}

function drawScale() {
  const pen = byId('scale-colours').getContext('2d');
  for (let x = 0; x < 128; x++) pen.fillStyle = `rgb(${heat(x / 127)})`, pen.fillRect(x, 0, 1, 1);
}
byId('quantity').onchange = draw;
addEventListener('resize', draw);
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw);
