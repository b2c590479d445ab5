import type { RateLimitOptions } from '@token-vault/http';
import { isUuid } from '@token-vault/contracts';
import express from 'express';
import { readShownSettings, type ShownSetting } from './shown-settings.ts';

/** The limits on callers of one process. See the README's table of settings. */
export interface LimitConfig {
  readonly rateLimits?: RateLimitOptions;
  /**
   * The proxies whose `X-Forwarded-For` is trusted: `loopback`, addresses or networks, comma-separated, or a number
   * of hops.
   */
  readonly trustProxy?: string | number;
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

const proxyForms =
  'a number of hops, or addresses, networks or the names loopback, linklocal and uniquelocal, separated by commas';

/** Checked with Express' own compiler, before anything is started. */
function readTrustProxy(text: string | undefined): string | number | undefined {
  if (text === undefined || text === '') return undefined;
  if (/^\d{1,2}$/.test(text)) return Number(text);
  try {
    express().set('trust proxy', text);
    return text;
  } catch (cause) {
    throw new RangeError(`VAULT_TRUST_PROXY must be ${proxyForms}`, { cause });
  }
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
