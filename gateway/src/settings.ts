import { readTrustProxy, type TrustedProxies } from '@token-vault/http';
import { z } from 'zod';

class GatewayConfigurationError extends Error {
  readonly code = 'configuration_invalid';
}

const addresses = z
  .string('is missing')
  .transform((text) =>
    text
      .split(',')
      .map((each) => each.trim())
      .filter((each) => each !== ''),
  )
  .refine(
    (list) => list.length > 0 && list.every((each) => /^http:\/\/[^/]+$/.test(each) && URL.canParse(each)),
    'must be http://host:port, separated by commas',
  )
  .transform((list) => list.map((each) => new URL(each)));

const variables = z.object({
  VAULT_HOST: z.string().default('127.0.0.1'),
  VAULT_PORT: z.coerce.number('is not a port').int('is not a port').min(0, 'is not a port').max(65_535, 'is not a port').default(8080), // prettier-ignore
  VAULT_LOG_LEVEL: z.string().default('info'),
  COMMAND_SERVICE_URLS: addresses,
  QUERY_SERVICE_URLS: addresses,
  PROXY_URLS: addresses,
});

export interface GatewaySettings {
  readonly host: string;
  readonly port: number;
  readonly logLevel: string;
  readonly commandServices: readonly URL[];
  readonly queryServices: readonly URL[];
  readonly proxies: readonly URL[];
  /** The load balancers before this gateway whose `X-Forwarded-…` is passed on. None by default. */
  readonly trustProxy?: TrustedProxies | undefined;
}

function trustedProxiesOf({ VAULT_TRUST_PROXY: text }: NodeJS.ProcessEnv): TrustedProxies | undefined {
  try {
    return readTrustProxy(text);
  } catch (error) {
    throw new GatewayConfigurationError((error as RangeError).message, { cause: error });
  }
}

/** @throws GatewayConfigurationError that names the variable */
export function readGatewaySettings(environment: NodeJS.ProcessEnv): GatewaySettings {
  const given = Object.fromEntries(Object.entries(environment).filter(([, value]) => value !== ''));
  const result = variables.safeParse(given);
  if (!result.success) {
    const [issue] = result.error.issues;
    throw new GatewayConfigurationError(`${String(issue?.path[0])} ${issue?.message}`);
  }
  const { VAULT_HOST: host, VAULT_PORT: port, VAULT_LOG_LEVEL: logLevel } = result.data;
  const { COMMAND_SERVICE_URLS: commandServices, QUERY_SERVICE_URLS: queryServices } = result.data;
  const trustProxy = trustedProxiesOf(environment);
  return {
    host,
    port,
    logLevel,
    commandServices,
    queryServices,
    proxies: result.data.PROXY_URLS,
    trustProxy,
  };
}
