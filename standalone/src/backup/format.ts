import { createHash } from 'node:crypto';
import { z } from 'zod';

/** A backup that cannot be made or cannot be restored. The message is one line for the operator. */
export class BackupError extends Error {
  readonly code = 'backup_refused';
}

/** Raised when a release writes a format that the release before would read wrongly. */
export const formatVersion = 1;
export const manifestFile = 'manifest.json';

const digest = z.string().regex(/^[\da-f]{64}$/);
const count = z.int().min(0);
const positionText = z.string().regex(/^\d{1,20}$/);

const backedUpFile = z.object({ name: z.string(), rows: count, bytes: count, sha256: digest });
export type BackedUpFile = z.infer<typeof backedUpFile>;

/**
 * `log` belongs to the operator's normal backups. `keys` is stored separately, and for a short time only
 * (erasure.md).
 */
export const bundleKinds = ['log', 'keys'] as const;
export type BundleKind = (typeof bundleKinds)[number];

const manifest = z.object({
  format: z.literal('token-vault backup'),
  format_version: z.int().min(1),
  kind: z.enum(bundleKinds),
  /** The same in both bundles of one backup. */
  backup_id: z.uuid(),
  created_at: z.iso.datetime(),
  release: z.string(),
  /** The log, by the id of its first event, and the last position that the backup holds. */
  log: z.object({ id: z.uuid(), position: positionText }),
  /** The last applied migration of each set. */
  schema: z.record(z.string(), z.int().min(1)),
  files: z.array(backedUpFile),
});
export type Manifest = z.infer<typeof manifest>;

const sum = (content: object): string => createHash('sha256').update(JSON.stringify(content)).digest('hex');

/** The manifest has its own checksum, so that a damaged byte is not taken for a value. */
export const writeManifest = (content: Manifest): string =>
  `${JSON.stringify({ ...content, sha256: sum(content) }, null, 2)}\n`;

/** @throws BackupError */
export function readManifest(text: string, kind: BundleKind, place: string): Manifest {
  let parsed: Record<string, unknown>;
  try {
    parsed = JSON.parse(text) as Record<string, unknown>;
  } catch (cause) {
    throw new BackupError(`${place} is not readable`, { cause });
  }
  const { sha256, ...content } = parsed;
  const version = content['format_version'];
  if (typeof version === 'number' && version > formatVersion)
    throw new BackupError(
      `${place} has format ${version}, this release knows up to ${formatVersion}: use the newer release`,
    );
  const read = manifest.safeParse(content);
  if (!read.success) throw new BackupError(`${place} is not that of a backup`);
  if (sha256 !== sum(content)) throw new BackupError(`${place} was altered: its checksum is not right`);
  if (read.data.kind !== kind)
    throw new BackupError(`${place} is that of the ${read.data.kind}, not of the ${kind}`);
  return read.data;
}
