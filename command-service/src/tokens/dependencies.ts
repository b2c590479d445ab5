import type { CommandDependencies } from '../dependencies.ts';
import type { MissLimit } from '@token-vault/http';
import type { TransactionOutcomes } from '../transactions/outcomes.ts';
import type { Enlistment } from './enlistment.ts';
import type { TokenErasure } from './erasure.ts';
import type { FingerprintClaims } from './fingerprint-claims.ts';

export interface TokenDependencies extends CommandDependencies {
  readonly missLimit: MissLimit;
  readonly outcomes: TransactionOutcomes;
  readonly enlistment: Enlistment;
  readonly claims: FingerprintClaims;
  readonly erasure: TokenErasure;
}
