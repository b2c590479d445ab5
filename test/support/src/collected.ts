import { setTimeout as later } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/** Whether the object is gone once all garbage is collected. */
export async function isCollected(object: WeakRef<object>): Promise<boolean> {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  // A weak reference keeps its object until the turn ends that made it.
  await later(0);
  collect();
  return object.deref() === undefined;
}
