import { connect } from 'node:net';
import { text } from 'node:stream/consumers';

/** Names the environment variable in which `global-setup.ts` leaves the path of its socket for the workers. */
export const starterVariable = 'TOKEN_VAULT_TEST_STARTER';

let answer: Promise<string> | undefined;

/** The administrator's URL of this run's Postgres, which is started if this is the first call of the run. */
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
