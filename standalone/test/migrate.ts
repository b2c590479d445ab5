// Makes the tables of this release in DATABASE_URL, as the first start of a vault does: the template of cluster-template.ts has them.
import { schema } from '@token-vault/processes';
import { migrate } from '@token-vault/processes/migrations';

await migrate(process.env['DATABASE_URL'] ?? '', schema);
