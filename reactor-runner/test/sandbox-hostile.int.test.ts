import { attacks } from './sandbox-corpus.ts';
import { escapes } from './sandbox-escapes.ts';
import { describeAttacks } from './sandbox-hostile-suite.ts';

describeAttacks(
  attacks.filter(({ isRepresentative }) => isRepresentative),
  escapes,
);
