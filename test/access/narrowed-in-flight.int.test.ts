import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { must, newCaller, openCast, type Cast } from './cast.ts';
import { direct, tell, type Asked } from './entrances.ts';
import { card, hiddenOf } from './hidden.ts';
import { everything, permissions, type Rights } from './rights.ts';
import { openTwins, type Twins } from './twins.ts';

/** The caller is made out again when the rest of a request took longer than this, and some. */
const bodyTookMs = 150;
const [hidden] = hiddenOf;
const masking: Rights = { permissions: [...permissions], rules: [] };

let twins: Twins;
let cast: Cast;
beforeAll(async () => {
  twins = await openTwins();
  const [tenantId] = await twins.newPair();
  cast = await openCast(twins, tenantId, { type: 'private', ...masking });
  const data = card(hidden.number, hidden.cvc);
  const body = { id: 'live', type: 'card', data, containers: ['/a/'] };
  await must(twins, cast.author, { operation: 'createToken', body });
});
afterAll(() => twins.close());

const asks: Readonly<Record<string, Asked>> = {
  'a search': { operation: 'searchTokens', body: { query: 'type:card' } },
  'a patch of the mask': {
    operation: 'updateToken',
    params: { id: 'live' },
    body: { mask: '{{ data }}' },
  },
  'a patch': { operation: 'updateToken', params: { id: 'live' }, body: { metadata: { k: 'v' } } },
};

/** What the caller is told whose rights change while its body is on the way. */
async function tellWhile(asked: Asked, change: (id: string) => Asked) {
  const caller = await newCaller(twins, cast.manager, { type: 'private', ...everything });
  return tell(twins, caller, asked, {
    async readBody() {
      await must(twins, cast.manager, change(caller.id));
      await delay(bodyTookMs);
      return asked.body;
    },
  });
}

describe('a caller whose rights change while it sends the body of', () => {
  it.each(Object.entries(asks))('%s is told what it may see by then', async (_name, asked) => {
    const narrowed = await tellWhile(asked, (id) => ({
      operation: 'updateApplication',
      params: { id },
      body: { name: 'caller', ...masking },
    }));
    const [before] = await direct.ask(twins, cast.caller(0), asked);
    expect(narrowed.status).toBe(before?.status);
    expect(JSON.stringify(narrowed.body)).not.toContain(hidden.number);
    const deleted = await tellWhile(asked, (id) => ({ operation: 'deleteApplication', params: { id } }));
    expect(deleted.status).toBe(401);
  });
});
