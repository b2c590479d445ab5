import type { Transform } from '@token-vault/contracts';

/** From the transform that shows least to the one that shows most. */
export const byExposure: readonly Transform[] = ['redact', 'mask', 'reveal'];

/** The transform that shows less. */
export const lesserOf = (one: Transform, other: Transform): Transform =>
  byExposure.indexOf(one) < byExposure.indexOf(other) ? one : other;
