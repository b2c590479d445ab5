import type { Application, Reactor } from '@token-vault/contracts';
import {
  createDataDirectory,
  removeDataDirectory,
  startStandaloneProcess,
  type Client,
} from '@token-vault/test-support';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

let dataDir: string;
let manager: Client;

beforeAll(async () => {
  dataDir = await createDataDirectory();
  manager = (await startStandaloneProcess({ dataDir })).client();
});
afterAll(() => removeDataDirectory(dataDir));

/** A reactor with the code. Gives its id. */
async function reactor(applicationId: string, code: string): Promise<string> {
  const application = { id: applicationId };
  const body = {
    name: 'r',
    configuration: {},
    code: `module.exports = async ({ svc }) => { ${code} }`,
    application,
  };
  return (await manager.expect<Reactor>(201, 'POST', '/reactors', { body })).body.id;
}

describe('32 synchronous runs at once', () => {
  // Three levels are tested with the sandbox alone, where runs have more time than 10 s.
  it('all succeed, though the code of each waits for other code', async () => {
    const grants = { name: 'a', type: 'private', permissions: ['token:use'] };
    const caller = (await manager.expect<Application>(201, 'POST', '/applications', { body: grants })).body;
    const client = manager.withKey(caller.key ?? '');
    const inner = await reactor(caller.id, 'return { raw: 1 };');
    const asks = `const { raw } = await svc.reactors.react('${inner}', {}); return { raw: raw + 1 };`;
    const outer = await reactor(caller.id, asks);
    const react = () => client.request('POST', `/reactors/${outer}/react`, { body: { args: {} } });
    const answers = await Promise.all(Array.from({ length: 32 }, react));
    expect(answers.map(({ status, body }) => [status, body])).toEqual(answers.map(() => [200, { raw: 2 }]));
  }, 240_000);
});
