import type { Position } from '../port.ts';

const text = new TextDecoder();

/** An event as stored on the server, of the vault or of another application. */
export interface ServerEvent {
  readonly streamId: string;
  readonly revision: number;
  readonly position: Position;
  readonly id: string;
  readonly type: string;
  readonly data: Uint8Array;
  readonly metadata: Uint8Array;
}

/** Types of system events begin with `$`, in any stream: metadata, tombstones, links, statistics. */
export function isSystemEvent({ type, streamId }: Pick<ServerEvent, 'type' | 'streamId'>): boolean {
  return type.startsWith('$') || streamId.startsWith('$');
}

/** The JSON object in these bytes; an empty one when there is none. */
export function objectIn(bytes: Uint8Array): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(text.decode(bytes));
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}
