import { aliased, maxMatrixContainers } from '@token-vault/contracts';
import type { Reader } from '../fair-reads.ts';

const c = aliased('tokens', 'token_count', 'c');
const containers = `select ${c.container} from ${c.source}
  where ${c.tenant_id} = $1 and starts_with(${c.container}, $2)
  group by ${c.container} having sum(${c.count}) > 0
  order by ${c.container} limit ${maxMatrixContainers + 1}`;

/**
 * The containers of the tenant that hold a token, in alphabetical order. At most one more than a matrix shows, so that the caller finds out
 * whether there are more.
 */
export async function listContainers(
  reader: Reader,
  tenantId: string,
  below = '/',
): Promise<readonly string[]> {
  const { rows } = await reader.query<{ readonly container: string }>({
    text: containers,
    values: [tenantId, below],
  });
  return rows.map(({ container }) => container);
}
