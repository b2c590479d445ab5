import { openKeyRing, openLog, openReadModels, type ProcessContext } from './data.ts';
import { openExpressions } from './expressions.ts';
import { queryHandlers } from './handlers.ts';
import { createServiceApp, openServiceParts } from './http.ts';
import { consoleFiles } from './console-files.ts';
import { openOperator } from './operator.ts';
import { readLimitSettings, readProcessSettings, readRootKeySources } from './settings.ts';
import { runService } from './start.ts';

const service = 'query-service';

function readSettings(environment: NodeJS.ProcessEnv) {
  return {
    ...readProcessSettings(environment),
    limits: readLimitSettings(environment),
    rootKeys: readRootKeySources(environment),
  };
}

/** The operations that read. */
async function open(context: ProcessContext, settings: ReturnType<typeof readSettings>) {
  const keyRing = await openKeyRing(context, settings.rootKeys);
  const data = { keyRing, ...(await openReadModels(context, await openLog(context))) };
  const expressions = openExpressions(context);
  const parts = await openServiceParts(context, data, settings.limits);
  const all = { ...parts, expressions, consoleFiles };
  const operator = openOperator(context, parts, settings.limits);
  return createServiceApp(context, all, queryHandlers(all, operator));
}

await runService({ service, readSettings, open });
