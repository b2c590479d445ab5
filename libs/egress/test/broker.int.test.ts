import { createServer } from 'node:http';
import type { IncomingMessage, RequestListener, Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { gzipSync } from 'node:zlib';
import { forbiddenUrls, unfitUrls } from '@token-vault/test-support';
import { afterEach, describe, expect, it } from 'vitest';
import { createEgressBroker, EgressError } from '../src/index.ts';
import type { EgressBroker, EgressBrokerOptions } from '../src/index.ts';

const cleanups: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0)) await cleanup();
});

function broker(options: EgressBrokerOptions = {}): EgressBroker {
  const made = createEgressBroker({ allowCidrs: ['127.0.0.1/32'], ...options });
  cleanups.push(() => made.close());
  return made;
}

type Listener = (...values: Parameters<RequestListener>) => Promise<void> | void;

async function serve(listener: Listener): Promise<string> {
  const server: Server = createServer((request, response) => void listener(request, response));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  cleanups.push(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

async function codeOf(promise: Promise<unknown>): Promise<string> {
  const error: unknown = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  return error instanceof EgressError ? error.code : `no EgressError: ${String(error)}`;
}

const bodyText = (bytes: Uint8Array): string => Buffer.from(bytes).toString();

async function readBody(request: IncomingMessage): Promise<string> {
  let text = '';
  for await (const chunk of request) text += String(chunk);
  return text;
}

describe('a request to a forbidden place', () => {
  it.each(forbiddenUrls)('%s is refused', async (url) => {
    expect(await codeOf(broker({ allowCidrs: [] }).fetch({ url }))).toBe('refused-address');
  });

  it.each(unfitUrls)('%s is refused as %s', async (url, code) => {
    expect(await codeOf(broker({ allowCidrs: [] }).fetch({ url }))).toBe(code);
  });

  it('is refused when one of the addresses of a name is private', async () => {
    const { fetch } = broker({ allowCidrs: [], resolve: async () => ['93.184.216.34', '10.0.0.1'] });
    expect(await codeOf(fetch({ url: 'https://mixed.test/' }))).toBe('refused-address');
  });

  it('does not put the address or the name into its error', async () => {
    const error: unknown = await broker({ allowCidrs: [] })
      .fetch({ url: 'https://10.9.8.7/card' })
      .catch((reason: unknown) => reason);
    expect(String(error)).not.toMatch(/10\.9|card/);
  });
});

describe('a name whose address changes', () => {
  it('is resolved once for each connection, and that address is the one used', async () => {
    const origin = await serve((_, response) => void response.end('pinned'));
    const answers = [['127.0.0.1'], ['10.0.0.1']];
    const asked: string[] = [];
    const { fetch } = broker({
      resolve: async (name) => {
        asked.push(name);
        return answers.shift() ?? [];
      },
    });
    const { body } = await fetch({ url: origin.replace('127.0.0.1', 'rebinding.test') });
    expect(bodyText(body)).toBe('pinned');
    expect(asked).toEqual(['rebinding.test']);
    expect(await codeOf(fetch({ url: 'http://rebinding.test:1/' }))).toBe('refused-address');
  });
});

describe('an exchange', () => {
  it('carries method, headers and body, and gives status, headers and body', async () => {
    const origin = await serve(async (request, response) => {
      response.writeHead(202, {
        'x-seen': `${request.method} ${String(request.headers['x-a'])} ${request.headers.host}`,
        'set-cookie': ['a=1', 'b=2'],
      });
      response.end(await readBody(request));
    });
    const answer = await broker().fetch({
      url: `${origin}/a?b=1`,
      method: 'post',
      headers: [
        ['x-a', 'b'],
        ['host', 'forged.test'],
        ['content-length', '999'],
      ],
      body: Buffer.from('hé'),
    });
    expect(answer).toMatchObject({
      status: 202,
      statusText: 'Accepted',
      url: `${origin}/a?b=1`,
      redirected: false,
    });
    expect(answer.headers).toContainEqual(['x-seen', `POST b ${new URL(origin).host}`]);
    expect(answer.headers.filter(([name]) => name === 'set-cookie')).toHaveLength(2);
    expect(bodyText(answer.body)).toBe('hé');
  });

  it('is bounded in time', async () => {
    const origin = await serve(() => undefined);
    expect(await codeOf(broker().fetch({ url: origin, timeoutMs: 50 }))).toBe('timeout');
  });

  it('is bounded in time also while the body arrives slowly', async () => {
    const origin = await serve((_, response) => void response.write('a'));
    expect(await codeOf(broker().fetch({ url: origin, timeoutMs: 100 }))).toBe('timeout');
  });

  it('can be aborted', async () => {
    const abort = new AbortController();
    const origin = await serve(() => abort.abort());
    expect(await codeOf(broker().fetch({ url: origin, signal: abort.signal }))).toBe('aborted');
  });

  it('is bounded in size, in both directions and when compressed', async () => {
    const origin = await serve((request, response) => {
      if (request.url === '/gzip')
        response.writeHead(200, { 'content-encoding': 'gzip' }).end(gzipSync(Buffer.alloc(100_000)));
      else response.end(Buffer.alloc(5_000));
    });
    const { fetch } = broker({ maxRequestBytes: 1_000, maxResponseBytes: 4_000 });
    expect(await codeOf(fetch({ url: origin }))).toBe('response-too-large');
    expect(await codeOf(fetch({ url: `${origin}/gzip` }))).toBe('response-too-large');
    expect(await codeOf(fetch({ url: origin, method: 'POST', body: Buffer.alloc(1_001) }))).toBe(
      'request-too-large',
    );
  });

  it('gives the body decompressed', async () => {
    const origin = await serve(
      (_, response) => void response.writeHead(200, { 'content-encoding': 'gzip' }).end(gzipSync('text')),
    );
    const answer = await broker().fetch({ url: origin });
    expect(bodyText(answer.body)).toBe('text');
    expect(answer.headers.map(([name]) => name)).not.toContain('content-encoding');
  });

  it('to an absent receiver fails as `network`', async () => {
    expect(await codeOf(broker().fetch({ url: 'http://127.0.0.1:1/' }))).toBe('network');
  });

  it.each([[[['bad name', 'a']]], [[['a', 'b\r\nc: d']]]] as [string, string][][][])(
    'with the header %j is refused',
    async (headers) => {
      const origin = await serve((_, response) => void response.end());
      expect(await codeOf(broker().fetch({ url: origin, headers }))).toBe('invalid-request');
    },
  );
});

describe('a redirect', () => {
  const redirecting = (status: number, location: string) =>
    serve((_, response) => void response.writeHead(status, { location }).end());

  it('to a forbidden place is refused', async () => {
    const origin = await redirecting(302, 'https://169.254.169.254/latest');
    expect(await codeOf(broker().fetch({ url: origin }))).toBe('refused-address');
    const plain = await redirecting(302, 'http://93.184.216.34/');
    expect(await codeOf(broker().fetch({ url: plain }))).toBe('refused-scheme');
    const file = await redirecting(302, 'file:///etc/passwd');
    expect(await codeOf(broker().fetch({ url: file }))).toBe('invalid-request');
  });

  it('to a name is judged by the address of that name', async () => {
    const origin = await redirecting(307, 'https://inside.test/');
    expect(await codeOf(broker({ resolve: async () => ['192.168.0.1'] }).fetch({ url: origin }))).toBe(
      'refused-address',
    );
  });

  it('to another origin drops headers that may hold a credential', async () => {
    const target = await serve((request, response) => void response.end(JSON.stringify(request.headers)));
    const origin = await redirecting(302, `${target}/there`);
    const headers = [
      ['authorization', 'secret'],
      ['x-api-key', 'secret'],
      ['cookie', 'secret'],
      ['accept', 'text/x'],
    ] as const;
    const answer = await broker().fetch({ url: origin, headers });
    expect(answer).toMatchObject({ url: `${target}/there`, redirected: true });
    expect(bodyText(answer.body)).toContain('text/x');
    expect(bodyText(answer.body)).not.toContain('secret');
  });

  it('within an origin keeps headers, method and body when its status says so', async () => {
    const origin = await serve(async (request, response) => {
      if (request.url?.startsWith('/from') === true)
        response.writeHead(Number(request.url.slice(5)), { location: '/to' }).end();
      else
        response.end(`${request.method} ${String(request.headers['x-api-key'])} ${await readBody(request)}`);
    });
    const send = async (status: number) => {
      const request = {
        url: `${origin}/from${status}`,
        method: 'POST',
        headers: [['x-api-key', 'k']],
        body: Buffer.from('b'),
      } as const;
      return bodyText((await broker().fetch(request)).body);
    };
    expect(await send(307)).toBe('POST k b');
    expect(await send(303)).toBe('GET k ');
    expect(await send(302)).toBe('GET k ');
  });

  it('never carries a body to another origin', async () => {
    const origin = await redirecting(308, 'http://127.0.0.1:1/');
    expect(await codeOf(broker().fetch({ url: origin, method: 'POST', body: Buffer.from('4242') }))).toBe(
      'unexpected-redirect',
    );
  });

  it('without end is ended; one that may not be followed is returned or refused', async () => {
    const origin = await redirecting(302, '/again');
    const { fetch } = broker();
    expect(await codeOf(fetch({ url: origin }))).toBe('too-many-redirects');
    expect(await fetch({ url: origin, redirect: 'manual' })).toMatchObject({
      status: 302,
      redirected: false,
    });
    expect(await codeOf(fetch({ url: origin, redirect: 'error' }))).toBe('unexpected-redirect');
  });
});
