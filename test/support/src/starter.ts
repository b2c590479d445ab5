import { connect } from 'node:net';
import { text } from 'node:stream/consumers';

/** The environment variable in which `global-setup.ts` gives workers the path of its socket. */
export const starterVariable = 'TOKEN_VAULT_TEST_STARTER';

let answer: Promise<string> | undefined;

/** The administrator's URL of this run's Postgres. The first call of the run starts it. */
export function testPostgresUrl(): Promise<string> {
  answer ??= ask();
  return answer;
}

async function ask(): Promise<string> {
  const socket = process.env[starterVariable];
  if (!socket) throw new Error('no test Postgres: createTestDatabase works only in tests run by vitest');
  const said = JSON.parse(await text(connect(socket))) as { url?: string; error?: string };
  if (said.url === undefined) throw new Error(`the test Postgres did not start: ${said.error}`);
  return said.url;
}
