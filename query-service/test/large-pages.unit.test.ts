import { describe, expect, it } from 'vitest';
import { createLargePages, createLargeTokens } from '../src/tokens/large-pages.ts';
import { principalOf } from './principals.ts';

const requestOf = (tenantId: string, applicationId = 'one') => ({
  principal: principalOf(tenantId, { applicationId }),
  outOfTurn: <Result>(wait: () => Promise<Result>) => wait(),
});

const large = [{ large_bytes: 500_000 }];

/** Pages that are worked on until `end` is called. */
function startPages(waitMs?: number) {
  const pages = createLargePages(waitMs === undefined ? {} : { waitMs });
  const { promise: over, resolve: end } = Promise.withResolvers<void>();
  const state = { now: 0, most: 0 };
  const work = async () => {
    state.now += 1;
    state.most = Math.max(state.most, state.now);
    await over;
    state.now -= 1;
  };
  return { pages, state, work, end };
}

const untilBegun = () => new Promise((resolve) => setImmediate(resolve));

describe('pages with large tokens', () => {
  it('are worked on six at a time, three of a tenant and two of an application', async () => {
    const { pages, state, work, end } = startPages();
    const run = (...of: Parameters<typeof requestOf>) =>
      Array.from({ length: 30 }, () => pages.run(requestOf(...of), large, work));
    const all = run('a');
    await untilBegun();
    expect(state.now).toBe(2);
    all.push(...run('a', 'two'));
    await untilBegun();
    expect(state.now).toBe(3);
    all.push(...run('b'), ...run('c'));
    await untilBegun();
    expect(state.now).toBe(6);
    end();
    await Promise.all(all);
    expect(state).toEqual({ now: 0, most: 6 });
  });

  it('hold up no page that is as small as one of a hundred small tokens', async () => {
    const { pages, state, work, end } = startPages();
    const running = Array.from({ length: 3 }, () => pages.run(requestOf('a'), large, work));
    const small = [...Array.from({ length: 99 }, () => ({})), { large_bytes: 4_097 }];
    const late = [{ large_bytes: 300_000 }, { large_bytes: 110_000 }];
    const begun = pages.run(requestOf('a'), small.slice(1), () => Promise.resolve('worked on'));
    await expect(begun).resolves.toBe('worked on');
    running.push(pages.run(requestOf('a'), small, work), pages.run(requestOf('a'), late, work));
    await untilBegun();
    expect(state.now).toBe(2);
    end();
    await Promise.all(running);
  });

  it('wait for a limited time, and a page after them is worked on', async () => {
    const { pages, work, end } = startPages(1);
    const running = [pages.run(requestOf('a'), large, work), pages.run(requestOf('a'), large, work)];
    await expect(pages.run(requestOf('a'), large, work)).rejects.toMatchObject({ code: 'unavailable' });
    end();
    await Promise.all(running);
    expect(await pages.run(requestOf('a'), large, () => Promise.resolve('worked on'))).toBe('worked on');
  });

  it('wait no more when their client has gone, and a page after them is worked on', async () => {
    const { pages, work, end } = startPages();
    const running = [pages.run(requestOf('a'), large, work), pages.run(requestOf('a'), large, work)];
    const client = new AbortController();
    const gone = new Error('the client has gone');
    const waiting = pages.run({ ...requestOf('a'), signal: client.signal }, large, work);
    client.abort(gone);
    await expect(waiting).rejects.toBe(gone);
    const late = { ...requestOf('a'), signal: AbortSignal.abort(gone) };
    await expect(pages.run(late, large, work)).rejects.toBe(gone);
    end();
    await Promise.all(running);
    expect(await pages.run(requestOf('a'), large, () => Promise.resolve('worked on'))).toBe('worked on');
  });

  it('return their place when the edge refuses the wait, or the work fails', async () => {
    const { pages, work, end } = startPages();
    const running = [pages.run(requestOf('a'), large, work), pages.run(requestOf('a'), large, work)];
    const refused = { ...requestOf('a'), large, outOfTurn: () => Promise.reject(new Error('refused')) };
    await expect(pages.run(refused, large, work)).rejects.toThrow('refused');
    end();
    await Promise.all(running);
    const failing = Array.from({ length: 5 }, () =>
      pages.run(requestOf('a'), large, () => Promise.reject(new Error('failed'))),
    );
    for (const each of failing) await expect(each).rejects.toThrow('failed');
    expect(await pages.run(requestOf('a'), large, () => Promise.resolve('worked on'))).toBe('worked on');
  });
});

describe('single reads of large tokens', () => {
  it('wait when the token has more than 64 KiB, as many as lists do', async () => {
    const pages = createLargeTokens();
    const { state, work, end } = startPages();
    const read = (bytes: number) => pages.run(requestOf('a'), [{ large_bytes: bytes }], work);
    const running = [read(65_536), read(65_537), read(300_000), read(65_537), read(65_536)];
    await untilBegun();
    expect(state.now).toBe(4);
    running.push(...Array.from({ length: 199 }, () => read(300_000)));
    await expect(read(300_000)).rejects.toThrow('Too many reads of large tokens wait.');
    expect(state.now).toBe(4);
    end();
    await Promise.all(running);
  });

  it('leave places for other tenants when those of two tenants are taken', async () => {
    const pages = createLargeTokens();
    const { state, work, end } = startPages();
    const run = (tenantId: string, applicationId: string) =>
      Array.from({ length: 4 }, () => pages.run(requestOf(tenantId, applicationId), large, work));
    const running = ['a', 'b'].flatMap((tenant) => [...run(tenant, 'one'), ...run(tenant, 'two')]);
    await untilBegun();
    expect(state.now).toBe(6);
    running.push(...run('c', 'one'));
    await untilBegun();
    expect(state.now).toBe(8);
    end();
    await Promise.all(running);
  });
});
