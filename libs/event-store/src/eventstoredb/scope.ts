import type { StreamFilter } from './read-call.ts';
import { isSystemEvent, objectIn, type ServerEvent } from './server-event.ts';

type Named = Pick<ServerEvent, 'streamId' | 'type'>;

/**
 * Letters, digits and underscores, and one dot at the end. So no prefix is the beginning of another, and no prefix is the beginning of a
 * stream name from before prefixes (`tenant-…`, `token-….…`).
 */
const prefixPattern = /^\w{1,32}\./;
const defaultPrefix = 'vault.';

/** @throws TypeError */
export function checkPrefix(prefix: string): void {
  if (prefixPattern.exec(prefix)?.[0] !== prefix)
    throw new TypeError('a stream prefix is 1 to 32 letters, digits or underscores, and a dot');
}

/** The streams of the server that belong to the vault. Other events in `$all` belong to other applications and are skipped. */
export class Scope {
  /** Empty for a log that is older than prefixes; such a log does not share its server. */
  readonly prefix: string;

  constructor(prefix: string) {
    this.prefix = prefix;
  }

  /** The name of a stream on the server. */
  nameOf(stream: string): string {
    return this.prefix + stream;
  }

  streamOf({ streamId }: Named): string {
    return streamId.slice(this.prefix.length);
  }

  includes(event: Named): boolean {
    return event.streamId.startsWith(this.prefix) && !isSystemEvent(event);
  }

  /** The filter of stream names, in the form of the server. */
  get filter(): StreamFilter {
    return this.prefix === '' ? everyStream : { prefixes: [this.prefix] };
  }
}

/** All streams except system streams. */
export const everyStream: StreamFilter = { regex: '^[^$]' };

/**
 * The scope of the existing log, by its first event that is not a system event. If a vault wrote that event without a prefix, the log is
 * older than prefixes. An event of another application, or of another vault, does not change the default.
 */
export const scopeFrom = (first: ServerEvent | undefined): Scope =>
  new Scope(first && isUnprefixed(first) ? '' : defaultPrefix);

function isUnprefixed({ streamId, metadata }: ServerEvent): boolean {
  const { version, tenant_id: tenantId } = objectIn(metadata);
  return Number.isInteger(version) && typeof tenantId === 'string' && !prefixPattern.test(streamId);
}
