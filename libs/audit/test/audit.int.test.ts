import { describeAudit } from './audit-suite.ts';

describeAudit('Postgres');
