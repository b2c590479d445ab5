import type { StandaloneProcess } from '@token-vault/test-support';
import type { Demo } from './demo.ts';

export const markup = `"'><img src=x onerror="globalThis.pwned=1"><script>globalThis.pwned=1</script>`;

const corpus = [
  markup,
  `<svg/onload=globalThis.pwned=1>`,
  `</title></script></style><iframe srcdoc="<script>parent.pwned=1</script>">`,
  `javascript:globalThis.pwned=1//`,
  `{{constructor.constructor('globalThis.pwned=1')()}} \${globalThis.pwned=1}`,
  `<base href=//evil.invalid><form action=//evil.invalid><button>x`,
  `\u202e<a href="javascript:globalThis.pwned=1">x</a>`,
];

/** Texts that would be markup or script, in every place that a tenant writes and the console shows. */
export async function hostile(
  vault: StandaloneProcess,
  demo: Demo,
): Promise<{ token: string; reactor: string; screens: string[] }> {
  const admin = vault.client();
  const backend = vault.client(demo.privateKey);
  const make = async (client: typeof admin, path: string, body: object): Promise<string> =>
    (await client.expect<{ id: string }>(201, 'POST', path, { body })).body.id;
  const screens: string[] = [];
  for (const text of corpus) {
    const rule = {
      description: text,
      priority: 1,
      container: '/',
      transform: 'mask',
      permissions: ['token:read'],
    };
    const id = await make(admin, '/applications', { name: text, type: 'private', rules: [rule] });
    if (text === markup) screens.push(`applications/${id}`);
  }
  const metadata = Object.fromEntries(corpus.map((text, index) => [`${index} ${text}`.slice(0, 200), text]));
  const mask = corpus[0] ?? '';
  const tokenId = await make(backend, '/tokens', { type: 'token', data: markup, mask, metadata });
  // Reasons are texts of the caller that the log shows. A header holds them in ASCII.
  for (const text of corpus.filter((each) => /^[\x20-\x7e]*$/.test(each))) {
    await backend.expect(200, 'GET', `/tokens/${tokenId}`, { headers: { 'SVC-REASON': text } });
  }
  const reactorId = await make(admin, '/reactors', {
    name: markup,
    code: `module.exports = () => ({ raw: ${JSON.stringify({ corpus })} });`,
    configuration: Object.fromEntries(corpus.map((text, index) => [`${index}`, text])),
    application: { id: demo.applicationIds['backend'] },
  });
  screens.push(`tokens/${tokenId}`, `reactors/${reactorId}`);
  return { token: `tokens/${tokenId}`, reactor: `reactors/${reactorId}`, screens };
}
