import { createEgressBroker, type EgressBroker } from '@token-vault/egress';
import { forbiddenUrls, waitUntil } from '@token-vault/test-support';
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { events, findProxyWith, fixture, openProxy, useProxyFixture } from './proxy-fixture.ts';

useProxyFixture();
let broker: EgressBroker;
/** The operator has opened nothing. */
beforeAll(() => (broker = createEgressBroker()));
afterAll(() => broker.close());

/** The last one is not ASCII, so it is no URL for the proxy. */
const urls = forbiddenUrls.filter((url) => /^[ -~]*$/.test(url));

describe('the corpus of private places, where the operator has opened none', () => {
  it.each(urls)('%s is refused for its address, and the log says so', async (url) => {
    fixture.url = url;
    const code = findProxyWith('requestCode');
    const configured = async (...asked: Parameters<typeof code>) => ({
      ...(await code(...asked)),
      destination: new URL(url).origin,
      requestCode: undefined,
    });
    const proxy = openProxy({ send: broker.send, findProxy: configured });
    for (const proxyId of [undefined, randomUUID()]) {
      const asked = proxy(randomUUID(), undefined, proxyId);
      await expect(asked).rejects.toMatchObject({
        status: 403,
        errors: { 'SVC-PROXY-URL': ['leads to an address or a port to which requests are not allowed'] },
      });
    }
    const ends = async () => (await events()).filter(({ type }) => type === 'ProxyAnswered');
    await waitUntil(async () => (await ends()).length === 2, { what: 'the ends in the log' });
    expect(await ends()).toMatchObject([
      { data: { failure: 'refused-address' } },
      { data: { failure: 'refused-address' } },
    ]);
  });
});
