import { setTimeout as delay } from 'node:timers/promises';
import type { Json, LogEntry, Pagination } from '@token-vault/contracts';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { must, newCaller, type Role } from './cast.ts';
import { tell, type Asked } from './entrances.ts';
import { bodyTookMs, useInFlight } from './in-flight.ts';
import { rule } from './rights.ts';

const vault = useInFlight();

describe('an answer whose tokens others change while it is made', () => {
  const seesMasked: Role = {
    type: 'private',
    permissions: [],
    rules: [rule({ container: '/a/', transform: 'mask', permissions: ['token:read', 'token:search'] })],
  };
  const asks: Readonly<Record<string, Asked>> = {
    'a list': { operation: 'listTokens' },
    'a search': { operation: 'searchTokens', body: { query: 'type:token' } },
    detokenize: { operation: 'detokenize', body: { slow: '{{ slow }}', shared: '{{ shared }}' } },
  };
  let versions = 0;
  const change = (body: Json = { data: `version ${++versions}`, mask: '{{ data }}' }) =>
    must(vault.twins, vault.cast.author, { operation: 'updateToken', params: { id: 'shared' }, body });

  /** The answer when `changed` is called each time that the token is opened, and the transforms of the tokens by the log. */
  async function tellWhileOpened(id: string, asked: Asked, changed: () => Promise<unknown>) {
    const caller = await newCaller(vault.twins, vault.cast.manager, seesMasked);
    let isChanging = false;
    vault.twins.beforeOpening(async (entity) => {
      if (entity !== `token:${id}` || isChanging) return;
      isChanging = true;
      await changed();
      // The vault looks again at tokens of answers that took longer than this.
      await delay(bodyTookMs);
      isChanging = false;
    });
    const { status = 200, body } = await tell(vault.twins, caller, asked).finally(() =>
      vault.twins.beforeOpening(),
    );
    const asking: Asked = { operation: 'listLogs', query: { actor_id: caller.id } };
    const { data } = (await must(vault.twins, vault.cast.manager, asking)) as unknown as { data: LogEntry[] };
    const shown = data.filter(
      ({ entity_id: of, transform }) => transform && (of === 'slow' || of === 'shared'),
    );
    const log = shown.map(({ entity_id: of, transform }) => `${of}: ${transform}`).sort();
    return { status, text: JSON.stringify(body), body, log };
  }

  beforeEach(async () => {
    // Too many filters for the short cut: a worker evaluates this mask.
    const mask = '{{ data | upcase | downcase | upcase | downcase | upcase }}';
    for (const id of ['slow', 'shared']) {
      const body = { id, type: 'token', data: 'as it was', mask, containers: ['/a/'] };
      await must(vault.twins, vault.cast.author, { operation: 'createToken', body });
    }
  });
  afterEach(async () => {
    for (const id of ['slow', 'shared'])
      await must(vault.twins, vault.cast.author, { operation: 'deleteToken', params: { id } });
  });

  it.each(Object.entries(asks))('%s is answered, and is one reading in the log', async (_name, asked) => {
    const { status, text, log } = await tellWhileOpened('slow', asked, () => change());
    expect(status).toBe(200);
    expect(text).toContain('AS IT WAS');
    expect(text).toContain(`version ${versions}`);
    expect(log).toEqual(['shared: mask', 'slow: mask']);
  });

  it.each(Object.entries(asks))(
    '%s without a token that has left is no reading of it',
    async (_name, asked) => {
      const { status, body, text, log } = await tellWhileOpened('slow', asked, () =>
        change({ containers: ['/b/'] }),
      );
      expect(status).toBe(200);
      expect(text.match(/as it was/gi)).toHaveLength(1);
      expect(log).toEqual(['slow: mask']);
      const page = body as unknown as { pagination?: Pagination; data: readonly Json[] };
      if (page.pagination) expect(page.pagination.total_items).toBe(page.data.length);
    },
  );

  it.each(Object.entries(asks))(
    '%s shows no data of a token that changes each time',
    async (_name, asked) => {
      const mask = '{{ data | upcase | downcase | upcase | downcase | upcase }}';
      const { status, text, log } = await tellWhileOpened('shared', asked, () =>
        change({ data: `version ${++versions}`, mask }),
      );
      expect(status).toBe(200);
      expect(text.match(/as it was|version/gi)).toEqual(['AS IT WAS']);
      expect(log).toEqual(['shared: redact', 'slow: mask']);
    },
  );
});
