export { lowerBackgroundThreads } from './background-threads.ts';
export { leaveMemoryOutOfCoreDumps } from './core-dumps.ts';
export { freePorts } from './free-ports.ts';
export { endsInTime } from './in-time.ts';
export { closeInheritedDescriptors } from './inherited-descriptors.ts';
export { tellLeading, type ToStarter } from './to-starter.ts';
export { runProcess, type ProcessLife, type RunningParts } from './process-life.ts';
