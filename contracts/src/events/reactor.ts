import { z } from 'zod';
import { defineEvent, unchanged } from './registry.ts';
import { requiredSignature, sealedValue, signature } from './sealed.ts';

const content = {
  name: z.string(),
  code: z.string(),
  /** Sealed JSON object of configuration names and values, which are credentials of third parties. */
  configuration: sealedValue,
  application_id: z.uuid().optional(),
  signature,
};
const reactorId = z.uuid();

/** Version 2 may carry a signature. */
export const ReactorCreated = defineEvent('ReactorCreated', z.object({ reactor_id: reactorId, ...content }), [
  unchanged,
]);
export const ReactorUpdated = defineEvent('ReactorUpdated', z.object({ reactor_id: reactorId, ...content }), [
  unchanged,
]);
/** Signs a reactor of a release that did not sign reactors, in its present state. */
export const ReactorSigned = defineEvent(
  'ReactorSigned',
  z.object({ reactor_id: reactorId, signature: requiredSignature }),
);
export const ReactorDeleted = defineEvent(
  'ReactorDeleted',
  z.object({ reactor_id: reactorId, key_ids: z.array(z.uuid()) }),
);

export const reactorEvents = [ReactorCreated, ReactorUpdated, ReactorSigned, ReactorDeleted] as const;
