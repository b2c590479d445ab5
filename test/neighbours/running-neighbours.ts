import type { Token } from '@token-vault/contracts';
import {
  cardNumber,
  cardToken,
  createClient,
  createDataDirectory,
  printed,
  removeDataDirectory,
  resultOf,
  startStandaloneProcess,
  type StandaloneProcess,
} from '@token-vault/test-support';
import { makeCaller, makeReactor, type Place } from './attack.ts';

export interface RunningNeighbours {
  readonly vault: StandaloneProcess;
  readonly attacker: Place;
  readonly neighbour: Place;
  /** The usual requests of the neighbour, with their expected answers. @throws Error for another answer */
  live(): Promise<void>;
  end(): Promise<void>;
}

const permissions = [
  'token:create',
  'token:read',
  'token:update',
  'token:delete',
  'token:search',
  'token:use',
];

async function makeNeighbour(place: Place): Promise<() => Promise<void>> {
  const caller = await makeCaller(place, { permissions });
  const reactor = await makeReactor(place, 'return { raw: req.args.card.number.slice(-4) };');
  return async () => {
    const number = cardNumber();
    const order = crypto.randomUUID();
    const { id } = (await caller.expect<Token>(201, 'POST', '/tokens', { body: cardToken(number) })).body;
    await caller.expect(200, 'PATCH', `/tokens/${id}`, { body: { metadata: { order } } });
    const { body } = await caller.expect<Token>(200, 'GET', `/tokens/${id}`);
    const masked = (body.data as { number: string }).number;
    if (masked !== `XXXXXXXXXXXX${number.slice(-4)}`)
      throw new Error('the card is not shown as its mask says');
    const query = { body: { query: `metadata.order:${order}` } };
    const found = await caller.expect<{ data: Token[] }>(200, 'POST', '/tokens/search', query);
    if (found.body.data[0]?.id !== id) throw new Error('the token is not found');
    const run = await caller.expect<{ raw: string }>(200, 'POST', reactor, {
      body: { args: { card: `{{ ${id} }}` } },
    });
    if (run.body.raw !== number.slice(-4)) throw new Error('the run saw another card');
    await caller.expect(204, 'DELETE', `/tokens/${id}`);
  };
}

/** A vault in separate processes, and two tenants of it. */
export async function startNeighbours(): Promise<RunningNeighbours> {
  const dataDir = await createDataDirectory();
  const vault = await startStandaloneProcess({ dataDir });
  const output = await resultOf(dataDir, 'tenants', 'create', 'Attacker', '--plan', 'enterprise');
  const { url } = vault;
  const attacker = { url, manager: createClient(url, printed(output, 'management key')) };
  const neighbour = { url, manager: vault.client() };
  return {
    vault,
    attacker,
    neighbour,
    live: await makeNeighbour(neighbour),
    async end() {
      await vault.stop('SIGKILL');
      await removeDataDirectory(dataDir);
    },
  };
}
