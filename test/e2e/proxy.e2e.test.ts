import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { gunzipSync, gzipSync } from 'node:zlib';
import type { Application, Tenant } from '@token-vault/contracts';
import { type Client, waitUntil } from '@token-vault/test-support';
import { describe, expect, it } from 'vitest';
import { startDestination } from './destination.ts';
import { useProxy } from './proxied-requests.ts';

const mebibyte = 1024 * 1024;
const { vault, destination, manager, backend, number, card, newToken, proxy, lastTrace, logOf, messagesOf } =
  useProxy();

describe('a request through the proxy', () => {
  it('sends the card to the destination only; the log has both requests', async () => {
    const text = `{"amount": 12345678901234567890, "card": "{{ ${card.id} }}", "number": "{{ ${card.id} | json: '$.number' }}"}`;
    destination.answer = (_request, response) =>
      void response
        .writeHead(201, { 'X-Request-Id': 'r1', 'Set-Cookie': 'a=b', 'Content-Type': 'application/json' })
        .end('{"id":"ch_1"}');
    const headers = {
      Authorization: 'Bearer s3cr3t',
      'X-Last': `{{ ${card.id} | json: '$.number' | last4 }}`,
    };
    const query = `?expand=a&number={{${card.id}|json:'$.number'}}`;
    const answer = await proxy('POST', { text, headers, query });

    expect([answer.status, answer.text]).toEqual([201, '{"id":"ch_1"}']);
    expect(answer.headers.get('svc-proxy-status')).toBe('201');
    expect(answer.headers.get('x-request-id')).toBe('r1');
    expect(answer.headers.get('set-cookie')).toBeNull();
    expect(JSON.stringify([...answer.headers]) + answer.text).not.toContain(number);
    const [arrived] = destination.arrived;
    expect(arrived?.url).toBe(`/v1?expand=a&number=${number}`);
    expect(arrived?.body.toString()).toBe(
      `{"amount": 12345678901234567890, "card": {"cvc":"737","number":"${number}","expiration_month":12,"expiration_year":2040}, "number": "${number}"}`.replace(
        /\{"cvc.*?\}/,
        JSON.stringify((JSON.parse(arrived?.body.toString() ?? '') as { card: object }).card),
      ),
    );
    expect(arrived?.headers).toMatchObject({ authorization: 'Bearer s3cr3t', 'x-last': number.slice(-4) });
    expect(Object.keys(arrived?.headers ?? {}).filter((name) => /^svc-|forwarded|cookie/.test(name))).toEqual(
      [],
    );

    await waitUntil(async () => (await messagesOf(answer.trace)).includes('Proxy answered 201'), {
      what: 'the log',
    });
    const entries = await logOf(answer.trace);
    expect(entries.map(({ message, entity_type, operation }) => [message, entity_type, operation])).toEqual([
      [`Proxy invoked: POST ${destination.url}`, 'proxy', 'invoke'],
      ['Token used', 'card', 'use'],
      ['Proxy answered 201', 'proxy', 'invoke'],
    ]);
    expect(JSON.stringify(entries)).not.toMatch(new RegExp(`${number}|s3cr3t|ch_1|/v1`));
  });

  it.each(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'])(
    'is passed on as %s',
    async (method) => {
      const answer = await proxy(method);
      expect([answer.status, destination.arrived.map((each) => each.method)]).toEqual([200, [method]]);
    },
  );

  it('is refused for other methods, and nothing is sent', async () => {
    const answer = await proxy('PROPFIND');
    expect([answer.status, answer.headers.get('allow')]).toEqual([
      405,
      'GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS',
    ]);
    expect(destination.arrived).toEqual([]);
  });

  it('returns the answer of the destination: errors, redirects, compressed and empty bodies', async () => {
    for (const [status, headers, body] of [
      [402, { 'content-type': 'application/problem+json' }, '{"type":"theirs"}'],
      [302, { location: 'http://169.254.169.254/' }, ''],
      [204, {}, ''],
      [503, { 'retry-after': '7', 'cache-control': 'public', 'access-control-allow-origin': '*' }, 'busy'],
    ] as const) {
      destination.answer = (_request, response) => void response.writeHead(status, headers).end(body);
      const response = await fetch(`${vault.url}/proxy`, {
        redirect: 'manual',
        headers: {
          'SVC-PROXY-URL': destination.url,
          'SVC-API-KEY': String((await keyOf(backend)) ?? ''),
        },
      });
      expect([response.status, response.headers.get('svc-proxy-status'), await response.text()]).toEqual([
        status,
        String(status),
        body,
      ]);
      expect(response.headers.get('location')).toBe('location' in headers ? headers.location : null);
      expect(response.headers.get('cache-control')).toBe('no-store');
      expect(response.headers.get('access-control-allow-origin')).toBeNull();
    }
    expect(destination.arrived).toHaveLength(4);
  });
});

describe('the body of a request', () => {
  /** Sends it, and gives what arrived. The destination sends the same bytes back, which the caller gets. */
  async function arrivedOf(type: string, body: string | Buffer, more: Readonly<Record<string, string>> = {}) {
    const back = randomBytes(1_000);
    destination.answer = (_request, response) =>
      void response.writeHead(200, { 'Content-Type': type, ...more }).end(back);
    const key = String(await keyOf(backend));
    const headers = { 'SVC-PROXY-URL': destination.url, 'SVC-API-KEY': key, 'Content-Type': type, ...more };
    const answer = await new Promise<IncomingMessage>((resolve, reject) =>
      httpRequest(`${vault.url}/proxy`, { method: 'POST', headers }, resolve).on('error', reject).end(body),
    );
    expect([answer.statusCode, Buffer.concat(await answer.toArray()).equals(back)]).toEqual([200, true]);
    const [arrived] = destination.arrived.splice(0);
    expect(arrived?.headers['content-type']).toBe(type);
    return arrived?.body ?? Buffer.of();
  }

  it('is filled as a form, as XML and as text, by the rules of each', async () => {
    const id = await newToken({ type: 'token', data: `a & b=<"c"> ü` });
    const form = await arrivedOf('application/x-www-form-urlencoded', `x=1&name={{+${id}+}}&y=%7B`);
    expect(form.toString()).toBe('x=1&name=a+%26+b%3D%3C%22c%22%3E+%C3%BC&y=%7B');
    const xml = await arrivedOf('application/soap+xml; charset=utf-8', `<n a="{{ ${id} }}">{{${id}}}</n>`);
    const written = 'a &amp; b=&lt;&quot;c&quot;&gt; ü';
    expect(xml.toString()).toBe(`<n a="${written}">${written}</n>`);
    expect((await arrivedOf('text/csv', `1;{{ ${id} }}`)).toString()).toBe(`1;a & b=<"c"> ü`);
  });

  it('of another type, or compressed, goes on byte for byte, and so does each answer', async () => {
    const bytes = Buffer.concat([randomBytes(70_000), Buffer.from(`{{ ${card.id} }}`)]);
    expect((await arrivedOf('application/octet-stream', bytes)).equals(bytes)).toBe(true);
    expect((await arrivedOf('multipart/form-data; boundary=b', bytes)).equals(bytes)).toBe(true);
    const text = `{"card": "{{ ${card.id} }}"}`;
    const packed = await arrivedOf('application/json', gzipSync(text), { 'Content-Encoding': 'gzip' });
    expect(gunzipSync(packed).toString()).toBe(text);
  });
});

/** The client does not expose its key, so a new key is made for requests without the client. */
let plainKey: string | undefined;
async function keyOf(_client: Client): Promise<string | undefined> {
  if (plainKey === undefined) {
    const body = { name: 'plain', type: 'private', permissions: ['token:use'] };
    plainKey = (await manager.expect<Application>(201, 'POST', '/applications', { body })).body.key;
  }
  return plainKey;
}

describe('a body of 16 MiB', () => {
  it('is sent to the destination and returned, within bounded memory', async () => {
    const text = JSON.stringify({
      card: `{{ ${card.id} | json: '$.number' }}`,
      file: 'a'.repeat(15 * mebibyte),
    });
    const back = Buffer.alloc(16 * mebibyte, 'b');
    destination.answer = (_request, response) => void response.end(back);
    for (let round = 0; round < 4; round += 1) {
      const answer = await proxy('POST', { text });
      expect(answer.status).toBe(200);
      expect(createHash('sha256').update(answer.text).digest('hex')).toBe(
        createHash('sha256').update(back).digest('hex'),
      );
    }
    const [arrived] = destination.arrived;
    expect(arrived?.body.subarray(0, 60).toString()).toContain(number);
    expect(arrived?.body.length).toBe(Buffer.byteLength(text.replace(/\{\{.*?\}\}/, number)));
    expect(residentMebibytes(vault.pid)).toBeLessThan(700);
  });

  it('is the maximum: a larger request is 413, a larger answer of the destination 502', async () => {
    const length = String(16 * mebibyte + 1);
    const refused = await statusOfHead({ 'Content-Length': length, 'Content-Type': 'text/plain' });
    expect([refused, destination.arrived.length]).toEqual([413, 0]);
    destination.answer = (_request, response) => void response.end(Buffer.alloc(16 * mebibyte + 1));
    const answer = await proxy('GET');
    expect([answer.status, answer.body.type]).toEqual([502, 'urn:token-vault:problem:destination-failed']);
    expect(answer.headers.get('svc-proxy-status')).toBeNull();
  });
});

/** The status of the answer before the body is sent: a client that is still sending may not see the answer. */
async function statusOfHead(headers: Readonly<Record<string, string>>): Promise<number | undefined> {
  const key = String(await keyOf(backend));
  const all = { 'SVC-API-KEY': key, 'SVC-PROXY-URL': destination.url, ...headers };
  const request = httpRequest(`${vault.url}/proxy`, { method: 'POST', headers: all });
  request.flushHeaders();
  const [answer] = (await once(request, 'response')) as [IncomingMessage];
  request.on('error', () => undefined).destroy();
  return answer.statusCode;
}

const residentMebibytes = (pid: number): number =>
  Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024;

describe('a destination that fails', () => {
  it('is 502 when no server listens there, and the log has the failure', async () => {
    const answer = await proxy('POST', { to: 'https://127.0.0.1:1/', body: { card: `{{ ${card.id} }}` } });
    expect([answer.status, answer.body.type]).toEqual([502, 'urn:token-vault:problem:destination-failed']);
    await waitUntil(async () => (await messagesOf(answer.trace)).includes('Proxy failed: network'), {
      what: 'the log',
    });
  });

  it('is 502 when its certificate is not trusted; it gets no request', async () => {
    const impostor = await startDestination();
    const { body } = await manager.expect<Tenant>(200, 'GET', '/tenants/self');
    const change = (settings: Tenant['settings']) =>
      manager.expect(200, 'PUT', '/tenants/self', { body: { name: body.name, settings } });
    try {
      await change({ ...body.settings, proxy_destinations: impostor.url });
      const answer = await proxy('POST', { to: impostor.url, body: { card: `{{ ${card.id} }}` } });
      expect([answer.status, answer.body.type]).toEqual([502, 'urn:token-vault:problem:destination-failed']);
      expect(impostor.arrived).toEqual([]);
    } finally {
      await change(body.settings);
      await impostor.close();
    }
  });

  it('may be slow before and within its answer, which arrives whole', async () => {
    destination.answer = (_request, response) => {
      setTimeout(() => response.write('slow'), 1_500);
      setTimeout(() => response.end('ly'), 3_000);
    };
    const answer = await proxy('GET');
    expect([answer.status, answer.text]).toEqual([200, 'slowly']);
  });

  it('is cut where it breaks off, so that the answer does not look whole', async () => {
    destination.answer = (_request, response) => {
      response.writeHead(200);
      response.write('half', () => response.destroy());
    };
    await expect(proxy('GET')).rejects.toThrow();
    await waitUntil(async () => (await messagesOf(lastTrace())).includes('Proxy answered 200: network'), {
      what: 'the log',
    });
  });

  it('is disconnected when the client disconnects', async () => {
    let isCut = false;
    destination.answer = (_request, response) => void response.on('close', () => (isCut = true));
    const abort = new AbortController();
    const headers = {
      'SVC-PROXY-URL': destination.url,
      'SVC-API-KEY': String(await keyOf(backend)),
      'SVC-TRACE-ID': 'gone-client',
    };
    const asked = fetch(`${vault.url}/proxy`, { headers, signal: abort.signal });
    await waitUntil(() => Promise.resolve(destination.arrived.length > 0), { what: 'the request' });
    abort.abort();
    await expect(asked).rejects.toThrow();
    await waitUntil(() => Promise.resolve(isCut), { what: 'the end of the exchange' });
    await waitUntil(async () => (await messagesOf('gone-client')).includes('Proxy failed: client-gone'), {
      what: 'the log',
    });
  });
});
