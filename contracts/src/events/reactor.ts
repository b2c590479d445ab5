import { z } from 'zod';
import { defineEvent, unchanged } from './registry.ts';
import { requiredSignature, sealedValue, signature } from './sealed.ts';

const content = {
  name: z.string(),
  code: z.string(),
  /** Sealed JSON object of configuration names and values: they hold credentials of third parties. */
  configuration: sealedValue,
  application_id: z.uuid().optional(),
  signature,
};
const reactorId = z.uuid();

/** Version 2 may be signed. */
export const ReactorCreated = defineEvent('ReactorCreated', z.object({ reactor_id: reactorId, ...content }), [
  unchanged,
]);
export const ReactorUpdated = defineEvent('ReactorUpdated', z.object({ reactor_id: reactorId, ...content }), [
  unchanged,
]);
/** A reactor of a release that did not sign reactors is signed as it is. */
export const ReactorSigned = defineEvent(
  'ReactorSigned',
  z.object({ reactor_id: reactorId, signature: requiredSignature }),
);
export const ReactorDeleted = defineEvent(
  'ReactorDeleted',
  z.object({ reactor_id: reactorId, key_ids: z.array(z.uuid()) }),
);

export const reactorEvents = [ReactorCreated, ReactorUpdated, ReactorSigned, ReactorDeleted] as const;
