// Package fault marks every side effect of git spot: the places where a kill, a failing call or a
// full disk must leave a state that the next command understands. The points are data, so that a
// test covers a new one without being told.
//
// In ordinary builds At does nothing. With the build tag "fault" it counts the points that a process
// passes and acts on GIT_SPOT_FAULT; see fault_on.go.
package fault

// Point names one kind of side effect. At is called before it happens.
type Point string

// The points.
const (
	GitCall    Point = "git.call"     // a git child is started; the detail is its subcommand
	ObjectNew  Point = "object.write" // a blob, tree or commit is written by libgit2
	RefUpdate  Point = "ref.update"   // a ref transaction is committed
	FileWrite  Point = "file.write"   // a file is created or replaced
	FileRename Point = "file.rename"
	FileRemove Point = "file.remove"
	FolderMake Point = "folder.make"
	LockTake   Point = "lock.take"
	ChildStart Point = "child.start" // a supervised child is started
	ChildEnd   Point = "child.end"   // a supervised child has ended and is not yet recorded
	Exit       Point = "exit"        // the command has done its work
)

// Points lists every point.
var Points = []Point{
	GitCall, ObjectNew, RefUpdate, FileWrite, FileRename, FileRemove, FolderMake, LockTake, ChildStart, ChildEnd, Exit,
}
