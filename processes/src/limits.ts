import { readTrustProxy, type RateLimitOptions, type TrustedProxies } from '@token-vault/http';
import { isUuid } from '@token-vault/contracts';
import { readShownSettings, type ShownSetting } from './shown-settings.ts';

/** The limits on callers of one process. See the README's table of settings. */
export interface LimitConfig {
  readonly rateLimits?: RateLimitOptions;
  /** The proxies whose `X-Forwarded-…` is believed. */
  readonly trustProxy?: TrustedProxies;
  /** VAULT_HANDLING */
  readonly isLenient?: boolean;
  /** VAULT_OPERATOR_TENANT: the tenant that may see and steer the whole vault. When absent, the first one of the log. */
  readonly operatorTenant?: string;
  /** The settings that the operator is shown. */
  readonly shownSettings?: readonly ShownSetting[];
}

function readCount(name: string, text: string | undefined): number | undefined {
  if (text === undefined || text === '') return undefined;
  if (!/^\d{1,9}$/.test(text)) throw new RangeError(`${name} must be a whole number; 0 means no limit`);
  return Number(text);
}

function readOperatorTenant(text: string | undefined): string | undefined {
  if (text === undefined || text === '') return undefined;
  if (!isUuid(text)) throw new RangeError('VAULT_OPERATOR_TENANT must be the id of a tenant');
  return text.toLowerCase();
}

function readHandling(text: string | undefined): boolean {
  if (text === undefined || text === '' || text === 'strict') return false;
  if (text === 'lenient') return true;
  throw new RangeError('VAULT_HANDLING must be strict or lenient');
}

/** @throws RangeError naming the variable */
export function readLimits(environment: NodeJS.ProcessEnv): LimitConfig {
  const requestsPerMinute = readCount('VAULT_RATE_LIMIT_PER_MINUTE', environment.VAULT_RATE_LIMIT_PER_MINUTE);
  const failuresPerMinute = readCount(
    'VAULT_AUTH_FAILURES_PER_MINUTE',
    environment.VAULT_AUTH_FAILURES_PER_MINUTE,
  );
  const trustProxy = readTrustProxy(environment.VAULT_TRUST_PROXY);
  const operatorTenant = readOperatorTenant(environment.VAULT_OPERATOR_TENANT);
  return {
    shownSettings: readShownSettings(environment),
    ...(operatorTenant === undefined ? {} : { operatorTenant }),
    rateLimits: {
      ...(requestsPerMinute === undefined ? {} : { requestsPerMinute }),
      ...(failuresPerMinute === undefined ? {} : { failuresPerMinute }),
    },
    ...(readHandling(environment.VAULT_HANDLING) ? { isLenient: true } : {}),
    ...(trustProxy === undefined ? {} : { trustProxy }),
  };
}
