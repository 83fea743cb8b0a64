// A plain chat. Each turn sends the new message and the state after the one before; so a turn costs the
// same however long the chat is, and undoing one is going back to an earlier state.
const talk = {states: [''], busy: null, session: 'chat-' + Math.random().toString(36).slice(2, 10)};

function addMessage(kind, text) {
  const box = document.createElement('div');
  box.className = kind;
  box.textContent = text;
  byId('talk').append(box);
  box.scrollIntoView({block: 'end'});
  return box;
}

function setBusy(busy) {
  talk.busy = busy;
  byId('send').disabled = busy !== null;
  byId('stop').disabled = busy === null;
  byId('undo').disabled = busy !== null || talk.states.length < 2;
  byId('fresh').disabled = busy !== null;
}

async function send(message) {
  const question = addMessage('user', message), answer = addMessage('answer', '');
  const thoughts = document.createElement('div'), text = document.createElement('div');
  thoughts.className = 'thoughts';
  answer.append(text);
  const stop = new AbortController();
  setBusy(stop);
  const body = {messages: [{role: 'user', content: message}], stream: true, return_state: true, session: talk.session,
    max_tokens: Number(byId('tokens').value)};
  if (byId('temperature').value !== '') body.temperature = Number(byId('temperature').value);
  if (talk.states.at(-1)) body.state = talk.states.at(-1);
  const began = performance.now();
  let pieces = 0, state = '', note = '';
  try {
    const reply = await fetch('/v1/chat/completions', {method: 'POST', signal: stop.signal,
      headers: withKey({'Content-Type': 'application/json'}), body: JSON.stringify(body)});
    if (!reply.ok) throw new Error((await reply.json()).error.message);
    for await (const {data} of eventsOf(reply)) {
      if (data === '[DONE]') break;
      const event = JSON.parse(data);
      if (event.error) throw new Error(event.error.message);
      const delta = event.choices[0]?.delta;
      if (delta?.reasoning_content) {
        if (!thoughts.isConnected) answer.prepend(thoughts);
        thoughts.textContent += delta.reasoning_content;
      }
      if (delta?.content) text.textContent += delta.content;
      pieces += delta ? 1 : 0;
      if (event.deltasane) {
        state = event.deltasane.state_out ?? '';
        note = `${event.usage.total_tokens} tokens so far, ${event.usage.prompt_tokens_details.cached_tokens} already in the state; ` +
          `${short(event.usage.completion_tokens / (performance.now() - began) * 1000)} tokens/s`;
      }
    }
  } catch (error) {
    note = stop.signal.aborted ? 'Stopped: the turn is not part of the chat.' : error.message;
  }
  if (state) talk.states.push(state);
  else question.remove(), answer.remove();
  if (!state) byId('message').value = message;
  byId('chat-note').textContent = note;
  setBusy(null);
}

byId('ask').onsubmit = (event) => {
  event.preventDefault();
  const message = byId('message').value.trim();
  if (!message || talk.busy) return;
  byId('message').value = '';
  send(message);
};
byId('message').onkeydown = (event) => {
  if (event.key === 'Enter' && !event.shiftKey) event.preventDefault(), byId('ask').requestSubmit();
};
byId('stop').onclick = () => talk.busy?.abort();
byId('undo').onclick = () => {
  talk.states.pop();
  for (let i = 0; i < 2; i++) byId('talk').lastElementChild?.remove();
  setBusy(null);
};
byId('fresh').onclick = () => {
  talk.states = [''];
  byId('talk').replaceChildren();
  byId('chat-note').textContent = '';
  setBusy(null);
};

async function begin() {
  const isChat = location.pathname === '/chat';
  byId(isChat ? 'chat' : 'states').hidden = false;
  byId(isChat ? 'to-chat' : 'to-states').setAttribute('aria-current', 'page');
  drawScale();
  const reply = await fetch('/props', {headers: withKey()}).catch(() => null);
  byId('key-form').hidden = reply?.status !== 401;
  if (reply?.ok) {
    const props = await reply.json();
    byId('model').textContent = props.model.id;
    document.title = props.model.id + ', deltasane';
    byId('temperature').placeholder = props.default_generation_settings.temperature;
    byId('link').textContent = 'connected';
    if (!props.chat_template) byId('chat-note').textContent = 'This model has no chat template that is known.';
  } else if (reply?.status === 401) {
    byId('link').textContent = 'an API key is needed';
    return;
  }
  if (!isChat) connect();
}
byId('key-form').onsubmit = (event) => {
  event.preventDefault();
  access.key = byId('key').value;
  begin();
};
begin();
