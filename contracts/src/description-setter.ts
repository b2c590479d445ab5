import { z } from 'zod';
import { anyJson } from './text.ts';

/** The caller that set the mask, the search indexes, the fingerprint expression or the flag of deduplication of a token by a PATCH. */
export interface DescriptionSetter {
  /** The id of an application or session. A new id for each write where several people may have the same key, or several callers set parts of the field. */
  readonly by: string;
  /** Whether it saw the data where the token is. What it sees in other containers is not stored, so this ends when another caller moves the token. */
  readonly sees: boolean;
}

/** Events before version 5 have the id alone, of a caller that did not see the data. Some of version 5 have the value of the creator, which is not used any more. */
export const storedSetter = z.union([
  z.string(),
  z.object({ by: z.string(), until_moved: z.literal(true).optional(), before: anyJson.optional() }),
]);
export type StoredSetter = z.infer<typeof storedSetter>;

export const toStoredSetter = ({ by, sees }: DescriptionSetter): StoredSetter => ({
  by,
  ...(sees ? { until_moved: true } : {}),
});

export const fromStoredSetter = (stored: StoredSetter): DescriptionSetter =>
  typeof stored === 'string'
    ? { by: stored, sees: false }
    : { by: stored.by, sees: stored.until_moved ?? false };
