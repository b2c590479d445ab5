import { afterEach, describe, expect, it } from 'vitest';
import type { Answer } from '@token-vault/operations';
import { startTinyApp, type Reply, type TinyApp } from './tiny-app.ts';

let app: TinyApp;
afterEach(() => app.stop());

/** Sends the answer like the HTTP edge, for an answer of a run or a stored answer of older rules. */
async function answered(answer: Answer): Promise<Reply> {
  app = await startTinyApp({ handlers: { getToken: () => Promise.resolve(answer) } });
  return app.send('/tokens/abc');
}

describe('a response that reactor code chose', () => {
  it('keeps its status, its type and a body of text unchanged', async () => {
    const headers = { 'Content-Type': 'text/csv', 'X-Tea': 'grün' };
    const reply = await answered({ status: 418, headers, body: 'a,"b"\n' });
    expect(reply).toMatchObject({ status: 418, text: 'a,"b"\n', headers: { 'content-type': 'text/csv' } });
    expect(reply.headers['x-tea']).toBe('grün');
  });

  it('cannot be loaded as a script by a page', async () => {
    const reply = await answered({
      status: 200,
      headers: { 'Content-Type': 'text/javascript' },
      body: 'run()',
    });
    expect(reply).toMatchObject({
      text: 'run()',
      headers: { 'content-type': 'application/octet-stream', 'x-content-type-options': 'nosniff' },
    });
  });

  it('is JSON when the body is no text, and plain text when it is and names no type', async () => {
    const json = await answered({ status: 200, headers: {}, body: { a: [1] } });
    expect(json).toMatchObject({
      body: { a: [1] },
      headers: { 'content-type': 'application/json; charset=utf-8' },
    });
    await app.stop();
    const plain = await answered({ status: 200, headers: {}, body: 'text' });
    expect(plain).toMatchObject({ text: 'text', headers: { 'content-type': 'text/plain; charset=utf-8' } });
  });

  it.each([
    'X-Accel-Redirect',
    'X-Accel-Limit-Rate',
    'x-sendfile',
    'X-LIGHTTPD-send-file',
    'X-Reproxy-URL',
    'X-Original-URL',
    'X-Envoy-Immediate-Health-Check-Fail',
    'X-AppEngine-BlobKey',
    'X_Accel_Redirect',
    'X-Frame-Options',
    'X-Middleware-Rewrite',
    'X-NextJS-Cache',
    'X-Vercel-Cache',
    'X-WebKit-CSP',
    'X-Download-Options',
    'X-Purge',
    'X-Akamai-Edgescape',
    'X-SourceMap',
    'Set-Cookie',
    'Content-Encoding',
    'Content-Length',
    'Transfer-Encoding',
    'Connection',
    'Trailer',
    'RateLimit',
    'RateLimit-Remaining',
    'X-RateLimit-Limit',
    'X-Rate-Limit-Limit',
    'SVC-POSITION',
    'X-Svc-Position',
    'Strict-Transport-Security',
    'Access-Control-Allow-Origin',
    'Clear-Site-Data',
    'Refresh',
    'Surrogate-Control',
  ])('does not set %s', async (name) => {
    const reply = await answered({ status: 200, headers: { [name]: '77', 'X-Kept': '1' }, body: 'body' });
    expect(reply.headers[name.toLowerCase()]).not.toBe('77');
    expect(reply).toMatchObject({ status: 200, text: 'body', headers: { 'x-kept': '1' } });
  });

  it.each([204, 205, 304])('with status %i has neither body nor length', async (status) => {
    const headers = { 'Content-Type': 'text/plain', 'X-Kept': '1' };
    const reply = await answered({ status, headers, body: 'HTTP/1.1 200 OK\r\n\r\n' });
    expect(reply).toMatchObject({ status, text: '', headers: { 'x-kept': '1' } });
    for (const name of ['content-length', 'content-type', 'transfer-encoding'])
      expect(reply.headers[name]).toBeUndefined();
  });

  it('without a body has the length 0', async () => {
    expect(await answered({ status: 200, headers: {} })).toMatchObject({
      headers: { 'content-length': '0' },
      text: '',
    });
  });

  it('of HTML runs in a sandbox of the browser, and no cache stores it', async () => {
    const headers = { 'Content-Type': 'text/html', 'Cache-Control': 'public' };
    const reply = await answered({ status: 200, headers, body: '<script>1</script>' });
    expect(reply.headers).toMatchObject({
      'content-type': 'text/html',
      'content-security-policy': 'sandbox',
      'x-content-type-options': 'nosniff',
      'cache-control': 'no-store',
    });
  });
});
