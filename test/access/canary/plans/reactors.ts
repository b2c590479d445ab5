import type { Invocation, OperationId } from '@token-vault/contracts';
import { waitUntil } from '@token-vault/test-support';
import type { World } from '../world.ts';
import { idAndBody, idOf, managerOf, revealerOf, uuidOf, type Plan } from './plan.ts';

const code = 'module.exports = async () => ({ raw: 1 });';
/** Code with the canary in a comment. */
export const comment = (number: string): string => `${code} // ${number}`;
const reactor = { name: 'r', code, configuration: { 'some-key': 'v' } };

const onReactor = async (world: World) => ({ params: { id: world.ids.reactor } });
const undeliveredRuns = new WeakMap<World, Promise<string>>();
/** A run whose result cannot be delivered. One serves all requests: it can be delivered again any number of times. */
async function undelivered(world: World) {
  const run = undeliveredRuns.get(world) ?? startUndelivered(world);
  undeliveredRuns.set(world, run);
  return { params: { invocation_id: await run } };
}

async function startUndelivered(world: World): Promise<string> {
  const body = { args: { calls: '[]' }, callback_url: 'https://hooks.invalid/' };
  const at = `/reactors/${world.ids.reactor}/react`;
  const { headers } = await revealerOf(world).expect(202, 'POST', at, { body });
  const id = headers.get('svc-invocation-id') ?? '';
  const isTried = async () => {
    const { body: run } = await managerOf(world).expect<Invocation>(200, 'GET', `/invocations/${id}`);
    return (run.delivery?.attempts.length ?? 0) > 0;
  };
  // Other operations send their runs and deliveries at the same time.
  await waitUntil(isTried, { what: 'the first delivery', timeoutMs: 120_000 });
  return id;
}

export const reactorPlans = {
  createReactor: {
    by: 'management',
    ready: () => ({ body: reactor }),
    written: { 'body.code': comment },
  },
  listReactors: { by: 'management', ready: () => ({ query: { size: '1' } }) },
  getReactor: { by: 'management', ready: onReactor, written: { 'path.id': uuidOf } },
  updateReactor: {
    by: 'management',
    ready: async (world) => ({
      params: { id: await idOf(managerOf(world), '/reactors', reactor) },
      body: reactor,
    }),
    written: { 'body.code': comment, 'path.id': uuidOf },
  },
  patchReactor: {
    by: 'management',
    ready: async (world) => ({
      params: { id: await idOf(managerOf(world), '/reactors', reactor) },
      body: { name: 'r' },
    }),
    written: { 'body.code': comment, 'path.id': uuidOf },
  },
  deleteReactor: {
    by: 'management',
    ready: async (world) => ({ params: { id: await idOf(managerOf(world), '/reactors', reactor) } }),
    written: { 'path.id': uuidOf },
  },
  react: {
    by: 'revealing',
    ready: async (world) => ({ ...(await onReactor(world)), body: { args: { calls: '[]' } } }),
    svc: 'reactors.react',
    values: idAndBody,
    written: {
      'path.id': uuidOf,
      'body.args.*': (number) => `<< ${number} }}`.replace('<<', '{{'),
      'body.callback_url': (number) => `https://hooks.invalid/${number}?card=${number}`,
      'body.callbackUrl': (number) => `https://hooks.invalid/${number}?card=${number}`,
    },
  },
  listInvocations: { by: 'management', ready: () => ({ query: { size: '1' } }) },
  getInvocation: { by: 'management', ready: undelivered, written: { 'path.invocation_id': uuidOf } },
  redeliverInvocation: { by: 'management', ready: undelivered, written: { 'path.invocation_id': uuidOf } },
} satisfies Partial<Record<OperationId, Plan>>;
