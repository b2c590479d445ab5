import type { Attack } from './attack.ts';
import { edgeAttacks } from './edge.ts';
import { expressionAttacks } from './expressions.ts';
import { reactorAttacks } from './reactors.ts';
import { storageAttacks } from './storage.ts';

export const attacks: readonly Attack[] = [
  ...expressionAttacks,
  ...reactorAttacks,
  ...storageAttacks,
  ...edgeAttacks,
];
