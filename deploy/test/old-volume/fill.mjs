// Fills the vault of an older release, whose data directory is then the volume of the upgrade test. vault.tar.xz was made so, at the commit
// 4aaf117a (23 November 2026: migrations of its own, unsigned records, read models of other versions), with keys that nothing else has:
//   VAULT_DATA_DIR=/tmp/old/data VAULT_PORT=18081 npm start
//   node deploy/test/old-volume/fill.mjs http://localhost:18081 /tmp/old       (then SIGTERM to the vault)
//   tar --create --sort=name --directory /tmp/old data expected.json | xz -9e > deploy/test/old-volume/vault.tar.xz
import { readFileSync, writeFileSync } from 'node:fs';

const [url, directory] = process.argv.slice(2);
const { management_key: managementKey } = JSON.parse(
  readFileSync(`${directory}/data/credentials.json`, 'utf8'),
);

async function call(status, method, route, key, body) {
  const type = method === 'PATCH' ? 'application/merge-patch+json' : 'application/json';
  const answer = await fetch(url + route, {
    method,
    headers: { 'SVC-API-KEY': key, 'Content-Type': type },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  const text = await answer.text();
  if (answer.status !== status) throw new Error(`${method} ${route}: ${answer.status} ${text}`);
  return text === '' ? undefined : JSON.parse(text);
}

const application = (body) => call(201, 'POST', '/applications', managementKey, { type: 'private', ...body });
const permissions = ['token:create', 'token:read', 'token:update', 'token:delete', 'token:use'];
const rule = { description: 'plaintext', priority: 1, container: '/', transform: 'reveal' };
const backend = await application({ name: 'backend', permissions });
const payments = await application({ name: 'payments', rules: [{ ...rule, permissions }] });
const gone = await application({ name: 'gone', permissions });
await call(204, 'DELETE', `/applications/${gone.id}`, managementKey);

const cards = [];
for (const number of ['4242424242424242', '5555555555554444', '378282246310005', '6011111111111117']) {
  const data = { number, expiration_month: 12, expiration_year: 2031 };
  const { id } = await call(201, 'POST', '/tokens', backend.key, { type: 'card', data });
  cards.push({ id, data });
}
const bankData = { routing_number: '021000021', account_number: '1234567890' };
const bank = await call(201, 'POST', '/tokens', backend.key, { type: 'bank', data: bankData });
const person = await call(201, 'POST', '/tokens', payments.key, {
  type: 'token',
  data: { name: 'Ada', note: 'first' },
  containers: ['/people/'],
  search_indexes: ['{{ data.name }}'],
});
await call(200, 'PATCH', `/tokens/${person.id}`, payments.key, { data: { note: 'second' } });
const erased = await call(201, 'POST', '/tokens', backend.key, { type: 'token', data: 'erased' });
await call(204, 'DELETE', `/tokens/${erased.id}`, backend.key);

const reactor = await call(201, 'POST', '/reactors', managementKey, {
  name: 'last4',
  code: 'module.exports = async ({ args, configuration }) => ({ raw: [args.number.slice(-4), configuration.NAME] });',
  configuration: { NAME: 'kept' },
});
const args = { number: `{{ ${cards[0].id} | json: '$.number' }}` };
await call(200, 'POST', `/reactors/${reactor.id}/react`, backend.key, { args });
for (const { id } of cards) await call(200, 'GET', `/tokens/${id}`, payments.key);

const { pagination } = await call(200, 'GET', '/logs', managementKey);
const expected = {
  managementKey,
  backendKey: backend.key,
  revealKey: payments.key,
  goneKey: gone.key,
  tokens: [
    ...cards,
    { id: bank.id, data: bankData },
    { id: person.id, data: { name: 'Ada', note: 'second' } },
  ],
  erasedId: erased.id,
  reactor: { id: reactor.id, args, raw: ['4242', 'kept'] },
  logEntries: pagination.total_items,
};
writeFileSync(`${directory}/expected.json`, JSON.stringify(expected));
