import { call } from './calls.ts';

type Method = (...values: unknown[]) => Promise<unknown>;

function method(name: string): Method {
  return (...values) => call(`svc.${name}`, values);
}

function group(prefix: string, names: readonly string[]): Record<string, Method> {
  return Object.fromEntries(names.map((name) => [name, method(`${prefix}.${name}`)]));
}

/** `req.svc`: each method becomes a host call. The credential for it never enters the isolate. */
export function createServiceClient() {
  return {
    tokens: group('tokens', [
      'create',
      'createMany',
      'retrieve',
      'list',
      'update',
      'delete',
      'deleteMany',
      'search',
    ]),
    reactors: group('reactors', ['react']),
    tokenize: method('tokenize'),
    detokenize: method('detokenize'),
  };
}
