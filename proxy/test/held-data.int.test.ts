import { isCollected } from '@token-vault/test-support';
import { randomUUID } from 'node:crypto';
import { expect, it } from 'vitest';
import type { ProxyDependencies } from '../src/routes.ts';
import { findProxyWith, fixture, openProxy, read, taking, useProxyFixture } from './proxy-fixture.ts';

useProxyFixture();

/** Takes tokens, and refers to their data weakly. */
function weaklyTaking() {
  const taken: WeakRef<object>[] = [];
  const takeTokens: ProxyDependencies['takeTokens'] = (references, context, make) =>
    taking()(references, context, (tokens) => {
      taken.push(new WeakRef(tokens));
      return make(tokens);
    });
  return { taken, takeTokens };
}

it('an exchange does not hold the data of its tokens while the destination does not answer', async () => {
  const { taken, takeTokens } = weaklyTaking();
  const { promise: answers, resolve: answer } = Promise.withResolvers<() => void>();
  fixture.answering = (_request, response) => answer(() => response.end('done'));
  const exchange = openProxy({ takeTokens })();
  const end = await answers;
  expect(await Promise.all(taken.map(isCollected))).toEqual([true]);
  end();
  expect(await read((await exchange).stream)).toBe('done');
});

it.each(['requestCode', 'responseCode'] as const)('nor while its %s runs', async (part) => {
  const { taken, takeTokens } = weaklyTaking();
  const begun = Promise.withResolvers<void>();
  const over = Promise.withResolvers<void>();
  const runCode: ProxyDependencies['runCode'] = async () => {
    begun.resolve();
    await over.promise;
    return { raw: {} };
  };
  const change = { takeTokens, runCode, findProxy: findProxyWith(part) };
  const exchange = openProxy(change)(randomUUID(), undefined, randomUUID());
  await begun.promise;
  expect(await Promise.all(taken.map(isCollected))).toEqual([true]);
  over.resolve();
  expect(await read((await exchange).stream)).toBe('done');
});
