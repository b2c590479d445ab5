import type { LookupAddress } from 'node:dns';
import { isIP } from 'node:net';
import { buildConnector } from 'undici';
import type { AddressPolicy } from './addresses.ts';
import { EgressError } from './egress-error.ts';

/** Gives the addresses of a host name. Tests give their own. */
export type Resolve = (hostname: string) => Promise<readonly string[]>;

export interface ConnectorOptions {
  readonly policy: AddressPolicy;
  readonly resolve: Resolve;
  readonly connectTimeoutMs: number;
  readonly ports: readonly number[];
  readonly ca: string | undefined;
}

/**
 * Connects only to addresses that it has checked. The name is resolved once, every address must pass, and the socket
 * is pinned to these addresses, so that DNS rebinding between check and use is impossible.
 */
export function createPinnedConnector(options: ConnectorOptions): buildConnector.connector {
  return (target, callback) => {
    allowedAddresses(target, options).then(
      (addresses) => connect(target, addresses, options, callback),
      (error: unknown) => callback(error as Error, null),
    );
  };
}

/** @throws EgressError when an address, the scheme or the port is not allowed */
async function allowedAddresses(
  target: buildConnector.Options,
  { policy, resolve, ports }: ConnectorOptions,
): Promise<readonly string[]> {
  const hostname = target.hostname.replace(/^\[|\]$/g, '');
  const addresses = isIP(hostname) === 0 ? await resolveName(resolve, hostname) : [hostname];
  if (addresses.length === 0) throw new EgressError('network', 'The host name has no address');
  if (!addresses.every((address) => policy.allows(address))) {
    throw new EgressError('refused-address', 'Requests to private or reserved addresses are refused');
  }
  const isTrusted = addresses.every((address) => policy.isTrusted(address));
  if (!isTrusted && target.protocol !== 'https:')
    throw new EgressError('refused-scheme', 'Only https requests are allowed');
  const port = target.port === '' ? 443 : Number(target.port);
  if (!isTrusted && !ports.includes(port))
    throw new EgressError('refused-address', 'Requests to this port are refused');
  return addresses;
}

async function resolveName(resolve: Resolve, hostname: string): Promise<readonly string[]> {
  try {
    return await resolve(hostname);
  } catch (error) {
    if (error instanceof EgressError) throw error;
    throw new EgressError('network', 'The host name cannot be resolved');
  }
}

function connect(
  target: buildConnector.Options,
  addresses: readonly string[],
  { policy, connectTimeoutMs, ca }: ConnectorOptions,
  callback: buildConnector.Callback,
): void {
  const answers: LookupAddress[] = addresses.map((address) => ({ address, family: isIP(address) }));
  const pinned = buildConnector({
    timeout: connectTimeoutMs,
    ...(ca === undefined ? {} : { ca }),
    lookup(_name, settings, done) {
      if (settings.all === true) done(null, answers);
      else done(null, answers[0]?.address ?? '', answers[0]?.family);
    },
  });
  pinned(target, (error, socket) => {
    if (error !== null) {
      callback(error, null);
    } else if (socket.remoteAddress === undefined || !policy.allows(socket.remoteAddress)) {
      socket.destroy();
      callback(
        new EgressError('refused-address', 'Requests to private or reserved addresses are refused'),
        null,
      );
    } else {
      callback(null, socket);
    }
  });
}
