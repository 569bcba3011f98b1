// A person's browser at an authorization server: opens a URL, signs in, gives leave, and follows where it is sent.
// Prints the last page.
const jar = new Map();
let url = new URL(process.argv[2]);
let form;
for (let step = 0; step < 20; step += 1) {
  const own = jar.get(url.host) ?? new Map();
  const cookie = [...own].map(([name, value]) => `${name}=${value}`).join('; ');
  const headers = { cookie };
  if (form) headers['content-type'] = 'application/x-www-form-urlencoded';
  const answer = await fetch(url, { method: form ? 'POST' : 'GET', body: form, headers, redirect: 'manual' });
  for (const set of answer.headers.getSetCookie()) {
    const [pair] = set.split(';');
    const at = pair.indexOf('=');
    own.set(pair.slice(0, at), pair.slice(at + 1));
  }
  jar.set(url.host, own);
  form = undefined;
  if (answer.status >= 300 && answer.status < 400) {
    url = new URL(answer.headers.get('location'), url);
    continue;
  }
  const page = await answer.text();
  const action = page.match(/<form[^>]*action="([^"]+)"/);
  const prompt = page.match(/name="prompt" value="([^"]+)"/);
  if (!action || !prompt) {
    console.log(page);
    process.exit(answer.ok ? 0 : 1);
  }
  form = new URLSearchParams({ prompt: prompt[1], login: 'ada', password: 'pw' }).toString();
  url = new URL(action[1], url);
}
process.exit(2);
