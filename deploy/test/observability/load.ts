import { cardToken, createTestPool, plainApplication, revealingApplication } from '@token-vault/test-support';
import type { Client, StandaloneProcess } from '@token-vault/test-support';

const code = `module.exports = async ({ args }) => {
  if (args.fails) throw new Error('as asked');
  return { raw: { length: args.number.length } };
};`;

const keyOf = async (manager: Client, body: object): Promise<string> =>
  (await manager.expect<{ key: string }>(201, 'POST', '/applications', { body })).body.key;
const idOf = async (client: Client, route: string, body: object): Promise<string> =>
  (await client.expect<{ id: string }>(201, 'POST', route, { body })).body.id;

/** Gives a function that sends each kind of request that the dashboard tells of: answered, refused, failed. */
export async function prepareLoad(vault: StandaloneProcess): Promise<() => Promise<void>> {
  const manager = vault.client();
  const user = manager.withKey(await keyOf(manager, revealingApplication('/', { name: 'user' })));
  const permissions = ['token:create', 'token:use'];
  const runner = manager.withKey(await keyOf(manager, plainApplication({ permissions })));
  const reactor = await idOf(manager, '/reactors', { name: 'r', code, configuration: {} });
  const destination = 'https://vault.invalid/';
  const proxy = await idOf(manager, '/proxies', { name: 'p', destination });
  const altered = await idOf(user, '/tokens', cardToken());
  const pool = createTestPool(await vault.databaseUrl());
  await pool.query(`set search_path = rm_tokens; update token set signature = null where id = '${altered}'`);
  await pool.end();

  return async () => {
    const made = await Promise.all(Array.from({ length: 10 }, () => idOf(user, '/tokens', cardToken())));
    const [one = '', ...others] = made;
    const args = { number: `{{ ${one} | json: '$.number' }}` };
    await Promise.all([
      ...others.map((id) => user.expect(200, 'GET', `/tokens/${id}`)),
      // They meet on one token. A read of a token that is changed all the time may be 503 (ADR 16).
      user.request('GET', `/tokens/${one}`),
      ...made.map((_, step) =>
        user.request('PATCH', `/tokens/${one}`, { body: { metadata: { [`step${step}`]: 'x' } } }),
      ),
      runner.expect(200, 'POST', `/reactors/${reactor}/react`, { body: { args } }),
      runner.request('POST', `/reactors/${reactor}/react`, { body: { args: { fails: true } } }),
      user.expect(401, 'GET', `/tokens/${one}`, { key: 'key_pvt_none' }),
      user.expect(500, 'GET', `/tokens/${altered}`),
      // It may use tokens, and the tenant allows no destination.
      runner.request('GET', `/proxies/${proxy}/invoke/x`),
      manager.expect(200, 'GET', '/console/overview'),
    ]);
  };
}
