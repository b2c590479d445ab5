import { z } from 'zod';
import { defineEvent } from './registry.ts';
import { sealedValue } from './sealed.ts';

const content = {
  name: z.string(),
  code: z.string(),
  /** Sealed JSON object of configuration names and values: they hold credentials of third parties. */
  configuration: sealedValue,
  application_id: z.uuid().optional(),
};
const reactorId = z.uuid();

export const ReactorCreated = defineEvent('ReactorCreated', z.object({ reactor_id: reactorId, ...content }));
export const ReactorUpdated = defineEvent('ReactorUpdated', z.object({ reactor_id: reactorId, ...content }));
export const ReactorDeleted = defineEvent(
  'ReactorDeleted',
  z.object({ reactor_id: reactorId, key_ids: z.array(z.uuid()) }),
);

export const reactorEvents = [ReactorCreated, ReactorUpdated, ReactorDeleted] as const;
