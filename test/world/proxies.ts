import type { Client } from '@token-vault/test-support';

/** Code of a reactor as the request code of a proxy: its `raw` is the answer, and nothing is sent. */
const asProxyCode = (code: string): string => `
  const { CustomHttpResponseError } = require('@token-vault/reactor');
  const inner = { exports: undefined };
  ((module) => { ${code} })(inner);
  module.exports = async (req) => {
    const { raw } = await inner.exports(req);
    throw new CustomHttpResponseError({ status: 200, body: raw });
  };`;

/** Nothing listens there. */
export const nowhere = 'https://127.0.0.1:1';

/** A proxy whose request code is this code of a reactor. Gives the path to invoke it. */
export const makeProxyOf = (manager: Client, applicationId: string, code: string): Promise<string> =>
  makeProxy(manager, { application: { id: applicationId }, request: { code: asProxyCode(code) } });

/** A proxy for clients that have no key. */
export const makeOpenProxyOf = (manager: Client, applicationId: string, code?: string): Promise<string> =>
  makeProxy(manager, {
    application: { id: applicationId },
    require_auth: false,
    ...(code !== undefined && { request: { code: asProxyCode(code) } }),
  });

/** Sends to nowhere unless `more` says otherwise. Gives the path to invoke it. */
export async function makeProxy(manager: Client, more: object): Promise<string> {
  const body = { name: 'asks', destination: nowhere, ...more };
  const { id } = (await manager.expect<{ id: string }>(201, 'POST', '/proxies', { body })).body;
  return `/proxies/${id}/invoke`;
}
