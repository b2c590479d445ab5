import { must, openCast } from './cast.ts';
import { card } from './hidden.ts';
import type { Twins } from './twins.ts';

/**
 * A mask that was not evaluated yet counts as one that reads the cvc (`mayRead` of libs/expressions): the first twin of the first story would
 * open one value more than the second.
 */
export async function evaluateDefaultMask(twins: Twins): Promise<void> {
  const [tenantId] = await twins.newPair();
  const permissions = ['token:read'] as const;
  const cast = await openCast(twins, tenantId, { type: 'private', permissions, rules: [] });
  const body = { id: 'card', type: 'card', data: card('4242424242424242', '123') };
  await must(twins, cast.author, { operation: 'createToken', body });
  await must(twins, cast.caller(0), { operation: 'getToken', params: { id: 'card' } });
}
