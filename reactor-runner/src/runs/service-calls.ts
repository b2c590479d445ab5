import type { Json } from '@token-vault/contracts';
import type { ServiceRequest } from './ports.ts';

type Arguments = readonly (Json | undefined)[];

const objectOf = (value: Json | undefined): Record<string, Json> =>
  value !== null && typeof value === 'object' && !Array.isArray(value) ? value : {};

const textOf = (value: Json): string => (typeof value === 'string' ? value : JSON.stringify(value));

/** The value as a URL query: `{metadata: {color: 'red'}}` is `metadata.color=red`. */
function queryOf(value: Json | undefined): Json {
  const query: Record<string, Json> = {};
  for (const [name, given] of Object.entries(objectOf(value))) {
    if (given === null) continue;
    if (Array.isArray(given)) query[name] = given.map(textOf);
    else if (typeof given !== 'object') query[name] = textOf(given);
    else for (const [key, inner] of Object.entries(given)) query[`${name}.${key}`] = textOf(inner);
  }
  return query;
}

const idOf = (value: Json | undefined): Json => ({ id: typeof value === 'string' ? value : '' });
const bodyOf = (value: Json | undefined): Json => value ?? {};

/** The methods of `req.svc` as operations of the interface. */
const requests: Readonly<Record<string, (values: Arguments) => ServiceRequest>> = {
  'tokens.create': ([body]) => ({ operation: 'createToken', body: bodyOf(body) }),
  'tokens.createMany': ([body]) => ({ operation: 'createTokens', body: bodyOf(body) }),
  'tokens.retrieve': ([id]) => ({ operation: 'getToken', params: idOf(id) }),
  'tokens.list': ([query]) => ({ operation: 'listTokens', query: queryOf(query) }),
  'tokens.update': ([id, body]) => ({ operation: 'updateToken', params: idOf(id), body: bodyOf(body) }),
  'tokens.delete': ([id]) => ({ operation: 'deleteToken', params: idOf(id) }),
  'tokens.deleteMany': ([body]) => ({ operation: 'deleteTokens', body: bodyOf(body) }),
  'tokens.search': ([body]) => ({ operation: 'searchTokens', body: bodyOf(body) }),
  detokenize: ([body]) => ({ operation: 'detokenize', body: body ?? null }),
  tokenize: ([body]) => ({ operation: 'tokenize', body: body ?? null }),
  'reactors.react': ([id, body]) => ({ operation: 'react', params: idOf(id), body: bodyOf(body) }),
};

/** Undefined for an unknown method. */
export function serviceRequest(method: string, args: Json): ServiceRequest | undefined {
  const make = Object.hasOwn(requests, method) ? requests[method] : undefined;
  return make?.(Array.isArray(args) ? args : []);
}
