import { attacks, escapes } from './sandbox-corpus.ts';
import { describeAttacks } from './sandbox-hostile-suite.ts';

describeAttacks(attacks, escapes);
