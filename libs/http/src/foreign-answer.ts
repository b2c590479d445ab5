import type { ServerResponse } from 'node:http';

/** Code and styles. A page of this address may load those of its own address, where proxies answer too. */
const codeOfPages = /(java|ecma|j|live)script|css/i;

/**
 * For an answer that another server or a tenant's code has made, when its headers are set: it must not become a page, script or style of the
 * vault. Because of `nosniff` a browser loads no script or style of another type, so this holds also for browsers without `Sec-Fetch-Dest`.
 */
export function restrictForeignAnswer(response: ServerResponse): void {
  response.setHeader('Cache-Control', 'no-store');
  response.setHeader('X-Content-Type-Options', 'nosniff');
  response.setHeader('Content-Security-Policy', 'sandbox');
  // Pages load both by GET.
  if (response.req.method === 'GET' && codeOfPages.test(String(response.getHeader('Content-Type'))))
    response.setHeader('Content-Type', 'application/octet-stream');
}
