import type { StreamFilter } from './filtered-read.ts';
import { isSystemEvent, type ServerEvent } from './server-event.ts';

/**
 * Letters, digits and underscores, ended by the only dot: so no prefix is the beginning of another, and none is that of a stream
 * from before there were prefixes (`tenant-…`, `token-….…`).
 */
const prefixPattern = /^\w{1,32}\./;
const defaultPrefix = 'vault.';

/** @throws TypeError */
export function checkPrefix(prefix: string): void {
  if (prefixPattern.exec(prefix)?.[0] !== prefix)
    throw new TypeError('a stream prefix is 1 to 32 letters, digits or underscores, and a dot');
}

/** Which streams of the server are the vault's: everything else in `$all` is somebody else's, and passed over. */
export class Scope {
  /** Empty for a log that is older than prefixes, which has its server for itself. */
  readonly prefix: string;

  constructor(prefix: string) {
    this.prefix = prefix;
  }

  /** The name that the server knows a stream by. */
  nameOf(stream: string): string {
    return this.prefix + stream;
  }

  streamOf({ streamId }: ServerEvent): string {
    return streamId.slice(this.prefix.length);
  }

  includes(event: ServerEvent): boolean {
    return event.streamId.startsWith(this.prefix) && !isSystemEvent(event);
  }

  /** As the server takes it, of stream names. */
  get filter(): StreamFilter {
    return this.prefix === '' ? everyStream : { prefixes: [this.prefix] };
  }
}

/** Every stream but the system's. */
export const everyStream: StreamFilter = { regex: '^[^$]' };

/**
 * The scope of the log that is there, by its first event that is not the server's own. When a vault wrote that without a prefix, this is
 * a log from before prefixes. Whatever another application wrote first, or another vault, does not change the default.
 */
export const scopeFrom = (first: ServerEvent | undefined): Scope =>
  new Scope(first && isUnprefixed(first) ? '' : defaultPrefix);

function isUnprefixed({ streamId, metadata }: ServerEvent): boolean {
  const { version, tenant_id: tenantId } = (metadata ?? {}) as Record<string, unknown>;
  return Number.isInteger(version) && typeof tenantId === 'string' && !prefixPattern.test(streamId);
}
