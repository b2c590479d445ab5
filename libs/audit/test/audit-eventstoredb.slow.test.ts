import { describeAudit } from './audit-suite.ts';

describeAudit('EventStoreDB');
