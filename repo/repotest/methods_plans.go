package repotest

import "github.com/seed-df90f812/agentstore/repo"

var actionCalls = []call{
	{name: "Actions.Create", args: func(f *fixture) args { return args{f.newAction()} }},
	{name: "Actions.Create/again", trips: 2, args: func(f *fixture) args {
		return args{repo.NewAction{Name: f.action(), ActionDefinition: fullDefinition(), CreatedBy: f.owner}}
	}},
	{name: "Actions.Get", reads: true, args: func(f *fixture) args { return args{f.action()} }},
	{name: "Actions.List", reads: true, args: func(f *fixture) args {
		f.actions()
		return args{repo.ActionFilter{Namespace: f.namespace}, repo.Page{}}
	}},
	{name: "Actions.List/in the view", only: views, args: func(f *fixture) args {
		f.actions()
		return args{repo.ActionFilter{}, repo.Page{}}
	}},
	{name: "Actions.Update", trips: 4, args: func(f *fixture) args {
		definition := fullDefinition()
		definition.Tags = []string{"new"}
		return args{f.action(), 0, definition}
	}},
	{name: "Actions.Archive", trips: 2, reads: true, args: func(f *fixture) args { return args{f.action()} }},
	{name: "Actions.Delete", args: func(f *fixture) args { return args{f.unused()} }},
}

var planCalls = []call{
	{name: "Plans.Get", reads: true, args: func(f *fixture) args { return args{f.plan()} }},
	{name: "Plans.List", reads: true, args: func(f *fixture) args {
		f.linked()
		return args{repo.PlanFilter{Namespace: f.namespace}, repo.Page{}}
	}},
	{name: "Plans.List/in the view", only: views, args: func(f *fixture) args {
		f.linked()
		return args{repo.PlanFilter{}, repo.Page{}}
	}},
	{name: "Plans.List/of a session", reads: true, args: func(f *fixture) args {
		f.linked()
		return args{repo.PlanFilter{SessionID: f.session()}, repo.Page{}}
	}},
	{name: "Plans.Counts", reads: true, args: func(f *fixture) args {
		f.linked()
		return args{f.namespace, repo.Page{}}
	}},
	{name: "Plans.Counts/in the view", only: views, args: func(f *fixture) args {
		f.linked()
		return args{"", repo.Page{}}
	}},
	{name: "Plans.History", reads: true, args: func(f *fixture) args { return args{f.plan(), 0, 0} }},
	{name: "Plans.Use", trips: 2, args: func(f *fixture) args { return args{f.action(), f.use()} }},
	{name: "Plans.Use/in the view", only: views, args: func(f *fixture) args {
		return args{f.plain(), repo.UseAction{}}
	}},
	{name: "Plans.Use/for a session", only: views, args: func(f *fixture) args {
		return args{f.ownAction(), repo.UseAction{SessionID: f.session()}}
	}},
	{name: "Plans.Use/below a plan", only: views, args: func(f *fixture) args {
		return args{f.ownAction(), repo.UseAction{ParentID: f.plan()}}
	}},
	{name: "Plans.Use/elsewhere", only: views, args: func(f *fixture) args {
		return args{f.ownAction(), repo.UseAction{Namespace: f.namespace}}
	}},
	{name: "Plans.Transition", trips: 2, args: func(f *fixture) args {
		return args{f.moved(repo.TransitionStart), repo.TransitionFail, causeOf(repo.TransitionFail)}
	}},
	{name: "Plans.Transition/start", trips: 2, args: func(f *fixture) args {
		return args{f.plan(), repo.TransitionStart, repo.Cause{}}
	}},
	{name: "Plans.Claim", trips: 3, args: func(f *fixture) args {
		f.newPlanForOwner()
		return args{repo.Claim{
			Owner: f.owner, Namespaces: []string{f.namespace}, Actions: []string{f.action()},
			Phases: []repo.Phase{repo.PhaseStrategize},
		}}
	}},
	{name: "Plans.Claim/in the view", only: views, args: func(f *fixture) args {
		f.newPlanForOwner()
		return args{repo.Claim{Owner: "intruder"}}
	}},
	{name: "Plans.Claim/everywhere", only: views, args: func(f *fixture) args {
		f.newPlanForOwner()
		return args{repo.Claim{Owner: "intruder", AllNamespaces: true}}
	}},
	{name: "Plans.SetLimit", args: func(f *fixture) args {
		f.readsLimit()
		return args{repo.PlanLimit{Namespace: f.namespace, AtOnce: 3}}
	}},
	{name: "Plans.Limits", reads: true, moving: true, args: func(f *fixture) args {
		f.limits()
		return args{repo.Page{}}
	}},
	{name: "Plans.Progress", args: func(f *fixture) args {
		progress := repo.Progress{CompletedStep: ptr(int64(3)), CheckpointID: ptr("checkpoint")}
		return args{f.moved(repo.TransitionStart), progress}
	}},
	{name: "Plans.Delete", trips: 4, args: func(f *fixture) args {
		f.plan()
		return args{f.moved(repo.TransitionCancel), []repo.DeleteIf{{Version: 2}}}
	}},
	{name: "Plans.Sweep", reads: true, moving: true, everywhere: true, args: func(*fixture) args { return args{1} }},
	{name: "Plans.Link", args: func(f *fixture) args { return args{f.session(), f.plan()} }},
	{name: "Plans.Link/to one's own session", only: views, args: func(f *fixture) args {
		return args{f.ownSession(), f.plan()}
	}},
	{name: "Plans.Unlink", args: func(f *fixture) args { return args{f.session(), f.linked()} }},
}
