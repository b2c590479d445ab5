import * as invocations from '../api/invocations.ts';
import type { Operation } from './definition.ts';

export const invocationOperations = {
  listInvocations: {
    method: 'GET',
    path: '/invocations',
    service: 'query',
    permission: 'reactor:read',
    entity: 'reactor',
    summary: 'List runs of reactors',
    query: invocations.listInvocationsQuery,
    success: 200,
    response: invocations.invocationPage,
    answersFrom: ['runs'],
  },
  getInvocation: {
    method: 'GET',
    path: '/invocations/{invocation_id}',
    service: 'query',
    permission: 'reactor:read',
    entity: 'reactor',
    summary: 'Get a run of a reactor',
    params: invocations.invocationParams,
    success: 200,
    response: invocations.shownInvocation,
    answersFrom: ['runs'],
  },
  redeliverInvocation: {
    method: 'POST',
    path: '/invocations/{invocation_id}/redeliver',
    service: 'command',
    permission: 'reactor:update',
    entity: 'reactor',
    summary: 'Deliver the result of an asynchronous run now, or again',
    params: invocations.invocationParams,
    success: 202,
    isLoggedOnly: true,
  },
} as const satisfies Record<string, Operation>;
